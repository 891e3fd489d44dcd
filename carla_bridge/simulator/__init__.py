"""A small driving world that speaks CARLA 0.9.16's wire protocol; nothing outside this folder knows it is ours."""

WORLD_VERSION = 1
"""Raise it with every change after which the same seed gives other frames or boxes: recordings are made again then."""
