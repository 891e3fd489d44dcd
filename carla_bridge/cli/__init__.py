"""The `carla-bridge` command: one module per sub-command, imported only when it is needed."""
