"""The map: its roads, signals, scenery and files, all from one seed."""
