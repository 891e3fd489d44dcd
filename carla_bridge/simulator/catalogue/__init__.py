"""What can be in the world: kinds of things, semantic tags, vehicle models and blueprints."""
