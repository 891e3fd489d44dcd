"""A folder of its own for every federation that a test drives in process."""

import pytest

from tests.support.in_process_federation import write_plan


@pytest.fixture
def in_a_folder(tmp_path, monkeypatch):
    """The federation's plan and files are here; an aggregator that stops does not wait long for missing clients."""
    monkeypatch.chdir(tmp_path)
    write_plan()
    monkeypatch.setattr("src.aggregator._LAST_WORDS_SECONDS", 0.1)
