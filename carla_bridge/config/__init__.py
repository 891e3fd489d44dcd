"""What a plan says about a drive, as typed settings; needs neither CARLA nor numpy."""
