import pytest
import torch


@pytest.fixture(autouse=True)
def single_thread():
    """Small networks on a busy machine: threads would mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
