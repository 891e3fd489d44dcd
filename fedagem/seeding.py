"""All randomness of a run from one seed.

A generator is derived from the seed and the name of its use (client, round, purpose) instead of being carried along:
a client that repeats a round after a crash draws the same numbers, in whatever process it runs.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive_seed(seed: int, *use: str | int) -> int:
    """A 63-bit seed for one named use of the run's seed."""
    digest = hashlib.sha256(repr((seed, *use)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def derive_generator(seed: int, *use: str | int) -> torch.Generator:
    """A torch generator for one named use of the run's seed."""
    return torch.Generator().manual_seed(derive_seed(seed, *use))


@contextmanager
def seeded_torch(seed: int, *use: str | int) -> Iterator[None]:
    """Run a block with torch's global generator (dropout, initialisation) seeded, and put it back afterwards."""
    with torch.random.fork_rng(devices=[]):
        value = derive_seed(seed, *use)
        torch.default_generator.manual_seed(value)
        if torch.cuda.is_initialized():  # torch.manual_seed would keep a stack trace for later where it is not
            torch.cuda.manual_seed_all(value)
        yield
