"""A short plan given to `fx`, which knows nothing of the base that all plans share, ends in one sentence."""

import shutil
from pathlib import Path

import pytest

from fedagem.plans.plan import Plan
from tests.support.fx_federations import finish, fx


@pytest.fixture
def workspace(tmp_path: Path, repository: Path) -> Path:
    """A checkout as far as it matters here: the workspace with its link to the plans."""
    left_out = shutil.ignore_patterns("plan.yaml", "__pycache__")
    shutil.copytree(repository / "workspace", tmp_path / "workspace", symlinks=True, ignore=left_out)
    shutil.copytree(repository / "plan", tmp_path / "plan", ignore=left_out)
    return tmp_path / "workspace"


def test_a_short_plan_ends_in_a_sentence_and_the_complete_one_is_initialised(workspace: Path) -> None:
    plans = workspace / "plan"
    shutil.copy(plans / "rotated_digits.yaml", plans / "plan.yaml")
    code, said = finish(fx(workspace, "plan", "initialize"))
    assert code == 2, said
    sentence = (
        "Error: plan/plan.yaml is not complete: the plan has no section 'aggregator'; "
        "write it with `fedagem plan write NAME > plan/plan.yaml`."
    )
    assert [line for line in said.splitlines() if line.strip()][-1] == sentence
    assert "Traceback" not in said

    plan = Plan.load(plans / "rotated_digits.yaml")
    (plans / "plan.yaml").write_text(plan.changed({"tasks.train.kwargs.wants": []}).to_yaml())
    code, said = finish(fx(workspace, "plan", "initialize"))
    assert code == 2, said
    assert "kwargs.wants has no method" in said.splitlines()[-1], "fx checks what `fedagem` checks"

    plan = plan.changed({"task_runner.settings.model.template": "models.mnist_cnn.SmallCNN"})
    (plans / "plan.yaml").write_text(plan.to_yaml())
    code, said = finish(fx(workspace, "plan", "initialize", "-a", "localhost"))
    assert code == 0, said
    assert (workspace / "save" / "init.pbuf").stat().st_size > 0
    written = Plan.of_run(plans / "plan.yaml", "plan")
    assert written == plan.changed({"network.settings.agg_addr": "localhost"}), "it may be initialised again"
