"""What may be asked of Slurm. Arrays on a real cluster are in tests/e2e/test_slurm_array.py."""

import sys

import pytest

from fedagem.errors import FedAGemError
from fedagem.studies.slurm import ArrayTask, SlurmSettings, check_slurm


@pytest.mark.parametrize(
    ("time", "minutes"),
    [
        ("30", 30),
        ("30:30", 31),
        ("4:00:00", 240),
        ("4:00:01", 241),
        ("1-0", 1440),
        ("1-12", 2160),
        ("1-12:30", 2190),
        ("2-01:02:03", 2 * 1440 + 63),
    ],
)
def test_time_limits_in_all_forms_of_slurm(time, minutes):
    assert SlurmSettings.parse(f"time={time}").minutes == minutes


def test_options_are_those_of_sbatch():
    settings = SlurmSettings.parse("partition=gpu, gpus=a100:1,cpus=4,mem=16G,time=4:00:00")
    assert settings.options == {"partition": "gpu", "gpus": "a100:1", "cpus-per-task": "4", "mem": "16G"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("partition=gpu", r"--slurm needs the time limit of a task, as in time=4:00:00"),
        ("time=4:00:00,partitoin=gpu", r"--slurm has no setting 'partitoin'; did you mean partition"),
        ("time=4:00:00,gpu", r"--slurm takes key=value,key=value, as in .*, not 'gpu'"),
        ("time=4:00:00,gpus=", r"not 'gpus='"),
        ("time=soon", r"time=soon is no time limit: write it as 30, 4:00:00 or 1-12:00:00"),
        ("time=1", r"time=1 is less than 2 minutes"),
        ("time=4:00:00,time=5:00:00", r"--slurm has time twice"),
    ],
)
def test_mistakes_are_named(text, sentence):
    with pytest.raises(FedAGemError, match=sentence):
        SlurmSettings.parse(text)


def test_a_machine_without_slurm_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FedAGemError, match=r"sbatch is not here: --slurm works on the login node of a Slurm cluster"):
        check_slurm()


def test_a_missing_submitit_is_told(monkeypatch, tmp_path):
    for program in ("sbatch", "srun", "squeue"):
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(FedAGemError, match=r"--slurm needs submitit: install it with `pip install 'fedagem\[slurm\]'`"):
        check_slurm()


def test_a_task_ends_as_its_worker_does(tmp_path):
    with pytest.raises(SystemExit) as ended:
        ArrayTask(tmp_path)()
    assert ended.value.code == 2, "there is no queue"
