"""The simulator's own exceptions."""

LONGEST_REFUSAL = 300


class RefusedError(Exception):
    """A request that the simulator refuses; the text is the client's error message.

    Long texts are cut: parts of them come from clients, and they are logged and kept.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= LONGEST_REFUSAL else text[: LONGEST_REFUSAL - 3] + "...")


class RendererLostError(Exception):
    """Pictures can no longer be drawn; the text says why and what to do."""
