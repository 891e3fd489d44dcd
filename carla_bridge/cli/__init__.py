"""One module per sub-command of `carla-bridge`, imported only when it is run."""
