"""The former place of `keep_freed_pages`, until `learning.trainer` imports it from `fedagem.system`."""

from fedagem.system import keep_freed_pages

__all__ = ["keep_freed_pages"]
