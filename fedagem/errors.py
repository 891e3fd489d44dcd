"""Every error a user can cause, said in one sentence.

They are click exceptions so that `fedagem` and OpenFL's `fx`, both click programs, end with the sentence and a
non-zero exit code instead of a traceback.
"""

import click


class FedAGemError(click.ClickException):
    """A mistake in what the user gave us: the message names the value at fault and what to do."""

    exit_code = 2


class InputError(FedAGemError):
    """Something that was read cannot be used; what the message quotes of it cannot break the line or hide the rest."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(each if each.isprintable() else ascii(each)[1:-1] for each in message))


class PlanError(InputError):
    """The plan has an unknown key, a wrong type, or settings that contradict each other."""


class DataError(InputError):
    """Data that is missing, unreadable or not what the plan says."""


class CorruptStateError(InputError):
    """A saved state is truncated, damaged or of another plan; it is never loaded."""


class NonFiniteLossError(FedAGemError):
    """Training produced a NaN or an infinity; the client keeps its last good state."""


class FederationError(FedAGemError):
    """A collaborator cannot join the federation or stay in it."""
