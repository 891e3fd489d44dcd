"""A folder of its own for every federation that a test drives in process."""

import pytest


@pytest.fixture
def in_a_folder(tmp_path, monkeypatch):
    """The aggregator's files go here, and one that stops does not wait long for clients that are not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("src.aggregator._LAST_WORDS_SECONDS", 0.1)
