"""The client that owns a CARLA world: vehicles, cameras, traffic and walkers."""
