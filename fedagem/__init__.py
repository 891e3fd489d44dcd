"""Fed-A-GEM in plain PyTorch: buffers, gradient refinement, methods, task streams and metrics.

For notebooks: `fedagem.load_run("runs/...")` reads what a run has measured.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedagem.runs.notebook import Run

__all__ = ["load_run"]


def load_run(directory: str | os.PathLike[str]) -> Run:
    """Read the folder of a run, finished or not; imported lazily, so `import fedagem` stays light."""
    from fedagem.runs.notebook import Run

    return Run.load(directory)
