"""Annotated frames over TCP: pulled by the collaborators, window by window."""
