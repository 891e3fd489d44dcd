"""The OpenFL-facing classes of the workspace: everything that touches OpenFL's internals is here."""

from fedagem.system import check_torch_pair

check_torch_pair()
