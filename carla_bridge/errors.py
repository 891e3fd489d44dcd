"""Mistakes and losses that a user is told about in one sentence."""


class BridgeError(Exception):
    """Something the user can mend; the message is one sentence with the value at fault and what to do."""


class ConfigError(BridgeError):
    """A setting of the plan's `carla` section that cannot be used."""


class VersionError(BridgeError):
    """A server of another CARLA version than the client."""


class ServerUnreachableError(BridgeError):
    """No CARLA server answers where one was expected."""


class ServerLostError(BridgeError):
    """The server stopped answering while the fleet was driving."""
