"""OpenFL imports scikit-learn and pip in every process, which takes a second; hardly any process uses them."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _ImportedOnUse(ModuleType):
    """Stands for a module until one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def imported_on_use(*names: str) -> Iterator[None]:
    """While the block runs, `from a.b import c` takes a stand-in for each `a.b.c`, which imports it with its first use.

    Afterwards `a.b` is imported as always. Modules that are there already are left alone.
    """
    parents = [name.rpartition(".")[0] for name in names]
    absent = {parent: name for parent, name in zip(parents, names, strict=True) if parent not in sys.modules}
    for parent, name in absent.items():
        sys.modules[parent] = ModuleType(parent)
        setattr(sys.modules[parent], name.rpartition(".")[2], _ImportedOnUse(name))
    try:
        yield
    finally:
        for parent in absent:
            del sys.modules[parent]
