"""The folder of a run: laid out once, never overwritten, and resumed only with its own plan."""

import pytest
import yaml

from fedagem.errors import FedAGemError
from fedagem.runs.folder import create_run, plan_of_run, resume_run

PLAN = {
    "data_loader": {"settings": {"clients": 2, "seed": 0}},
    "task_runner": {"settings": {}},
    "network": {"settings": {"agg_addr": "auto", "agg_port": "auto", "use_tls": True}},
}


def test_a_new_run_is_a_complete_workspace(tmp_path):
    create_run(tmp_path / "r", PLAN, "my_plan")
    assert (tmp_path / "r" / "src" / "aggregator.py").exists()
    assert (tmp_path / "r" / ".workspace").exists()
    assert yaml.safe_load((tmp_path / "r" / "plan" / "cols.yaml").read_text()) == {
        "collaborators": ["client_1", "client_2"]
    }
    assert (tmp_path / "r" / "plan" / "data.yaml").read_text() == "client_1,0\nclient_2,1\n"
    assert plan_of_run(tmp_path / "r") == (PLAN, "my_plan")


def test_a_run_is_not_overwritten(tmp_path):
    create_run(tmp_path / "r", PLAN, "my_plan")
    with pytest.raises(FedAGemError, match=r"exists: go on with it \(--resume\) or choose another folder \(--out\)"):
        create_run(tmp_path / "r", PLAN, "my_plan")


def test_a_run_goes_on_only_with_its_own_plan(tmp_path):
    with pytest.raises(FedAGemError, match="holds no run to resume"):
        resume_run(tmp_path / "r", PLAN)
    create_run(tmp_path / "r", PLAN, "my_plan")
    elsewhere = {**PLAN, "network": {"settings": {"agg_addr": "localhost", "agg_port": 5, "use_tls": True}}}
    resume_run(tmp_path / "r", elsewhere)
    for other in (
        {**PLAN, "data_loader": {"settings": {"clients": 2, "seed": 1}}},
        {**PLAN, "network": {"settings": {"agg_addr": "auto", "agg_port": "auto", "use_tls": False}}},
    ):
        with pytest.raises(FedAGemError, match="is not the plan you gave"):
            resume_run(tmp_path / "r", other)
