"""CARLA's wire protocol: RPCs, streams and their messages."""
