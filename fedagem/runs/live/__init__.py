"""What people see in a terminal while runs and recordings are under way."""
