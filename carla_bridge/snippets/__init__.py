"""Driving snippets on disk: recorded once, they replay bit for bit through the interface of the live stream."""

from carla_bridge.errors import EndOfSnippetsError, SnippetError
from carla_bridge.snippets.journal import find_snippets
from carla_bridge.snippets.layout import OnError
from carla_bridge.snippets.source import SnippetSource
from carla_bridge.snippets.writer import SnippetWriter

__all__ = ["EndOfSnippetsError", "OnError", "SnippetError", "SnippetSource", "SnippetWriter", "find_snippets"]
