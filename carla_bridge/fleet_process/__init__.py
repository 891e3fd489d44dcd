"""A fleet in a process that can be replaced, and the embedded simulator as another."""
