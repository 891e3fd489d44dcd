"""Autopilots: where they go, and how they keep their lane and their distance."""
