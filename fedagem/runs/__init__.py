"""A run is a folder: how it is laid out, started, watched and resumed."""
