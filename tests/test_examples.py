"""The example of one client runs as it is, and learns without forgetting."""

import re
import subprocess
import sys

import pytest

BOUND = 0.85
"""The example reaches 0.94; a client that forgets the first five digits stays near one half."""


@pytest.mark.timeout(600)
def test_one_client_learns_the_second_task_and_keeps_the_first(repository):
    done = subprocess.run(
        [sys.executable, "examples/one_client.py"],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    accuracies = re.findall(r"on all: (\d\.\d+)", done.stdout)
    assert len(accuracies) == 2
    assert float(accuracies[-1]) > BOUND
