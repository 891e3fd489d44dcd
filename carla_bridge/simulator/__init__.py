"""A small driving world that speaks CARLA 0.9.16's wire protocol; nothing outside this folder knows it is ours."""
