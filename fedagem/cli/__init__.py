"""The `fedagem` command, one file per subcommand."""
