"""Why a party does not go on with the protocol."""


class ProtocolError(Exception):
    """A message, a request or a state that does not fit; the sentence says which, and what does not fit."""
