"""What can go wrong by name."""


class RefusedError(Exception):
    """Something the simulator will not do; the text is what the client is told."""


class RendererLostError(Exception):
    """Pictures can no longer be drawn; the text says why and what to do."""
