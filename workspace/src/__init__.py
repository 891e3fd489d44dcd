"""The OpenFL-facing classes of the workspace: everything that touches OpenFL's internals is here."""

from fedagem.system import check_torch_pair
from src.imports import imported_on_use

check_torch_pair()
with imported_on_use("sklearn.cluster", "pip._internal.operations.freeze"):
    import openfl.pipelines
    import openfl.utilities.workspace  # noqa: F401
