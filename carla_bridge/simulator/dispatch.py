"""From an RPC's name to the method that serves it, with every error turned into an answer."""

import inspect
import logging
from collections.abc import Callable
from typing import Any

from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.rpc import Caller
from carla_bridge.simulator.wire import failure, success

BARE = "apply_batch"
"""The one RPC whose result is not wrapped."""

log = logging.getLogger(__name__)


def method_table(*services: object) -> dict[str, Callable[..., Any]]:
    """Public methods by name."""
    return {
        name: member
        for service in services
        for name, member in inspect.getmembers(service, callable)
        if not name.startswith("_")
    }


class Dispatcher:
    """Answers CARLA's RPCs; what is not in the table is refused by name."""

    def __init__(self, *services: object) -> None:
        self._methods = method_table(*services)
        self._complained: set[str] = set()

    async def __call__(self, caller: Caller, name: str, arguments: list[Any]) -> object:
        # the first argument only says whether the client waits for the answer
        given = arguments[1:]
        method = self._methods.get(name)
        try:
            if method is None:
                raise RefusedError(f"not served: {name}")
            result = await call(method, caller, name, given)
        except RefusedError as refusal:
            if name not in self._complained and len(self._complained) < 1000:
                self._complained.add(name)
                log.warning("%s: %s", name, refusal)
            return failure(str(refusal))
        except Exception:
            log.exception("internal error in %s", name)
            return failure(f"internal error in {name}")
        return result if name == BARE else success(result)


async def call(method: Callable[..., Any], caller: Caller, name: str, given: list[Any]) -> Any:
    """Call a method with checked argument count; methods that want to know the caller get it first."""
    signature = inspect.signature(method)
    arguments = [caller, *given] if "caller" in signature.parameters else given
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise RefusedError(f"{name}: {error}") from None
    result = method(*arguments)
    return await result if inspect.isawaitable(result) else result
