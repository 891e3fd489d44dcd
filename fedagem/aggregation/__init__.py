"""How the results of many clients become one: sums that are exact, in whatever order they arrive."""
