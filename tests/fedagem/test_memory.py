"""Training processes keep the pages they have freed, however they were started."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys, torch
from fedagem.learning.trainer import Component, OptimizerSettings, TrainingSettings, Worker

if sys.argv[1] == "training":
    network = Component(template="models.mnist_cnn.SmallCNN")
    Worker.build(TrainingSettings(model=network, optimizer=OptimizerSettings(lr=0.1)), seed=0)
torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(kind):
    said = subprocess.run([sys.executable, "-c", SCRIPT, kind], capture_output=True, text=True, timeout=200, check=True)
    return int(said.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is meant")
def test_a_training_process_does_not_pay_for_the_same_pages_again():
    assert page_faults("training") < page_faults("plain") / 5
