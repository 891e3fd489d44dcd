"""The packages that only driving needs: everything else of the bridge, such as reading snippets, works without them."""

from importlib.util import find_spec

from carla_bridge.errors import BridgeError


def require_client() -> None:
    """Refuse to drive without CARLA's client library."""
    _require("carla")


def require_simulator() -> None:
    """Refuse to start the embedded simulator without what draws its pictures."""
    _require("panda3d")


def _require(package: str) -> None:
    """Look for a package without importing it: it may take seconds, and most processes only start others."""
    if find_spec(package) is None:
        raise BridgeError(f"driving needs the package {package}, which is missing; run `pip install 'fedagem[carla]'`")
