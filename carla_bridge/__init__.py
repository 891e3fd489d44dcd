"""Everything that knows CARLA: the fleet, annotation, frame streams, snippets and the embedded simulator."""
