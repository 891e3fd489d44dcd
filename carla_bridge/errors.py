"""Every error that the bridge reports to its user, each as one sentence."""


class BridgeError(Exception):
    """Something the user can correct; the message names the value at fault and what to do."""


class ConfigError(BridgeError):
    """A setting of the plan's `carla` section that cannot be used."""


class VersionError(BridgeError):
    """The server runs another CARLA version than the client."""


class ServerUnreachableError(BridgeError):
    """No CARLA server answers at the expected address."""


class ServerLostError(BridgeError):
    """The server stopped answering while the fleet was driving."""


class StreamError(BridgeError):
    """The other side of a stream refused a request, sent something malformed or went away."""


class StreamClosedError(StreamError):
    """The connection ended."""


class AnnotationError(ValueError):
    """A tag mapping or an image that cannot be annotated."""


class SnippetError(ValueError):
    """A snippet that cannot be used as it is; the message names what is wrong and where."""


class EndOfSnippetsError(SnippetError):
    """A window that starts after the last recorded frame."""


class NoImageFitsError(SnippetError):
    """A domain's rule that fits no image."""
