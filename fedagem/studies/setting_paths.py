"""Dotted paths of settings."""


def overlap(path: str, other: str) -> bool:
    """Whether one of two dotted paths is the other, or a part of it: who changes one changes both."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")
