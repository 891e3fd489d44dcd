"""What can go wrong by name."""

LONGEST_REFUSAL = 300


class RefusedError(Exception):
    """Something the simulator will not do; the text is what the client is told.

    Long texts are cut: clients choose parts of them, and they are logged and remembered.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= LONGEST_REFUSAL else text[: LONGEST_REFUSAL - 3] + "...")


class RendererLostError(Exception):
    """Pictures can no longer be drawn; the text says why and what to do."""
