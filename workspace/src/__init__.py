"""The OpenFL-facing classes of the workspace: everything that touches OpenFL's internals is here."""
