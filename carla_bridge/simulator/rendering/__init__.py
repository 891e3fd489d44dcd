"""How the simulator's pictures are made: meshes, codes, light, sky and air."""
