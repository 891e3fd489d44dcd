"""The one exception that reaches a client."""


class RefusedError(Exception):
    """Something the simulator will not do; the text is what the client is told."""
