"""The subcommands of `fedagem`, one per file."""
