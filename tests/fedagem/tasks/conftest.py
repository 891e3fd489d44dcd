"""What tests make of data sets stays out of the user's own data folder."""

import pytest


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("FEDAGEM_DATA", str(folder))
    return folder
