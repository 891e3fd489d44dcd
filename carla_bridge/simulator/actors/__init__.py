"""Everything that has an actor id: its state, how it moves, and what it touches."""
