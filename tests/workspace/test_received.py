"""What an aggregator keeps with --keep-received is what clients computed, and `fedagem audit` finds images in it."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedagem.audit.received import KeptRound
from fedagem.cli.main import main
from fedagem.errors import FedAGemError
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.runs.folder import create_run
from tests.support.method_federation import MethodFederation


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two rounds of three clients whose buffer gradients are of a single sample each."""
    folder = tmp_path_factory.mktemp("audit") / "run"
    plan = Plan.load(find_plan("rotated_digits")).changed(
        {
            "task_runner.settings.method": "fedavg",
            "task_runner.settings.buffer_gradient_samples": 1,
            "data_loader.settings.clients": 3,
            "data_loader.settings.partition": {"kind": "dirichlet", "alpha": 1.0},
            "data_loader.settings.tasks.count": 1,
            "data_loader.settings.samples_per_client": 64,
            "data_loader.settings.test_samples": 30,
            "aggregator.settings.keep_received": True,
        },
        rounds=3,
    )
    create_run(folder, plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        MethodFederation().run()
    return folder


def test_the_newest_round_is_kept_and_can_be_computed_again(run):
    assert [path.name for path in (run / "received").iterdir()] == ["round_000002"]
    kept = KeptRound.of(run)
    assert kept.clients == ["client_1", "client_2", "client_3"]
    for client in kept.clients:
        np.testing.assert_array_equal(kept.gradient(client, 1).numpy(), kept.received(client))
    mean = np.mean([kept.received(client) for client in kept.clients], axis=0)
    np.testing.assert_allclose(kept.mean(), mean, atol=1e-6)


def test_the_command_shows_the_image_of_a_single_sample(run, tmp_path):
    ended = CliRunner().invoke(main, ["audit", str(run), "--samples", "", "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    assert "received from client_1 (1 samples): 1 of 1 images reconstructed" in ended.output
    rows = json.loads((tmp_path / "audit.json").read_text())
    assert [row["source"] for row in rows] == ["received from client_1", "mean of all clients"]
    assert rows[0]["best_psnr"] >= 20
    assert (tmp_path / "audit.html").exists()


def test_a_run_that_kept_nothing_is_refused(run, tmp_path):
    create_run(tmp_path / "other", Plan.load(find_plan("rotated_digits")))
    with pytest.raises(FedAGemError, match=r"has kept nothing of what its aggregator received: run the plan with"):
        KeptRound.of(tmp_path / "other")
    for wrong, sentence in ((["--samples", "a"], "--samples must be whole numbers"), (["--samples", "0"], "positive")):
        ended = CliRunner().invoke(main, ["audit", str(run), *wrong])
        assert ended.exit_code == 2
        assert sentence in ended.output


def test_a_vector_of_another_length_is_refused(run):
    kept = KeptRound.of(run)
    path = Path(run / "received" / "round_000002" / "stranger.npy")
    np.save(path, np.zeros(5))
    try:
        with pytest.raises(FedAGemError, match=r"stranger\.npy has 5 numbers, but the model has 1663370"):
            kept.received("stranger")
    finally:
        path.unlink()
