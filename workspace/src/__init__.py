"""The OpenFL-facing classes of the workspace: everything that touches OpenFL's internals is here."""

from fedagem.torch_pair import check_torch_pair

check_torch_pair()
