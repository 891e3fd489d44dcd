"""Annotated images in the formats of others: read to become snippets, and written from snippets."""
