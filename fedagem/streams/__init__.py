"""Where a benchmark's data comes from: sources, tasks made of them, and what each client gets of each task."""
