"""What an experiment is: plans, read, changed and checked before anything starts."""
