"""Tables, figures and pages made from finished runs."""
