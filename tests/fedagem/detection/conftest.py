import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def single_thread():
    """Small networks on a busy machine: threads would mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def carla_snippets():
    """Recorded CARLA drives, where this machine has them."""
    repository = Path(__file__).resolve().parents[3]
    data = Path(os.environ.get("FEDAGEM_DATA", repository.parent / "shared" / "data"))
    folder = data / "carla_snippets"
    if not folder.is_dir():
        pytest.skip(f"needs the recorded drives in {folder} (set FEDAGEM_DATA to the folder that holds them)")
    return folder
