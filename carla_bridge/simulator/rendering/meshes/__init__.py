"""The shapes of things, as arrays: nothing here knows the engine that draws them."""
