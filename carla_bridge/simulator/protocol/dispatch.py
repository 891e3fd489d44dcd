"""Finds the method that serves an RPC, and turns every error into an answer."""

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
"""How many different refusals are logged, each once."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Method:
    """A method that clients can call, and its signature."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature

    async def call(self, caller: Caller, given: list[Any]) -> Any:
        """Check the number of arguments and call; methods with a `caller` parameter get the caller first."""
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
    """Answers CARLA's RPCs; refuses unknown ones by name."""

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
    """The failure of a call in the shape of its result: if a batch cannot be run, every command has failed."""
    answer = failure(message)
    if name != UNWRAPPED:
        return answer
    return [answer] * (len(given[0]) if given and isinstance(given[0], list) else 1)
