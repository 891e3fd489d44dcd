"""From an RPC's name to the method that serves it, with every error turned into an answer."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol.rpc import Caller
from carla_bridge.simulator.protocol.wire import failure, success

UNWRAPPED = "apply_batch"
"""The one RPC whose result is not wrapped: it is a list with the response to each command."""

MOST_LOGGED_REFUSALS = 1000
"""Different refusals that are logged, each once."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Method:
    """Something that can be called from outside, and what it takes."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature

    async def call(self, caller: Caller, given: list[Any]) -> Any:
        """Call with checked argument count; methods that want to know the caller get it first."""
        arguments = [caller, *given] if "caller" in self.signature.parameters else given
        try:
            self.signature.bind(*arguments)
        except TypeError as error:
            raise RefusedError(f"{self.name}: {error}") from None
        result = self.function(*arguments)
        return await result if inspect.isawaitable(result) else result


def method_table(*services: object) -> dict[str, Method]:
    """Public methods by name."""
    return {
        name: Method(name, member, inspect.signature(member))
        for service in services
        for name, member in inspect.getmembers(service, callable)
        if not name.startswith("_")
    }


class Dispatcher:
    """Answers CARLA's RPCs; what is not in the table is refused by name."""

    def __init__(self, *services: object) -> None:
        self._methods = method_table(*services)
        self._logged: set[str] = set()

    async def __call__(self, caller: Caller, name: str, arguments: list[Any]) -> object:
        # the first argument only says whether the client waits for the answer
        given = arguments[1:]
        method = self._methods.get(name)
        try:
            if method is None:
                raise RefusedError(f"not served: {name}")
            result = await method.call(caller, given)
        except RefusedError as refusal:
            sentence = f"{name}: {refusal}" if method is not None else str(refusal)
            if sentence not in self._logged and len(self._logged) < MOST_LOGGED_REFUSALS:
                self._logged.add(sentence)
                log.warning(sentence)
            return _failed(name, given, str(refusal))
        except Exception:
            log.exception("internal error in %s", name)
            return _failed(name, given, f"internal error in {name}")
        return result if name == UNWRAPPED else success(result)


def _failed(name: str, given: list[Any], message: str) -> object:
    """The failure of a call, in the shape of its result: of a batch that could not be run, every command failed."""
    answer = failure(message)
    if name != UNWRAPPED:
        return answer
    return [answer] * (len(given[0]) if given and isinstance(given[0], list) else 1)
