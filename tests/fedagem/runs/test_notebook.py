"""`fedagem.load_run`: a run as plain objects and as data frames."""

import subprocess
import sys

import pytest

import fedagem
from fedagem.errors import FedAGemError
from fedagem.runs.metrics_log import read_metrics
from fedagem.runs.results import collect_results
from tests.support.finished_runs import MATRIX, digits_rows, make_digits_run, make_driving_run


@pytest.fixture
def folder(tmp_path):
    return make_digits_run(tmp_path / "run", digits_rows())


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, fedagem; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'pandas', 'click')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_is_loaded_as_plain_objects(folder):
    run = fedagem.load_run(str(folder))
    assert run.directory == folder
    assert run.rows == read_metrics(folder)
    assert run.results == collect_results(folder)
    assert run.results.accuracy["domain_il"] == pytest.approx(0.7)
    assert run.curves["accuracy/domain_il"][4] == pytest.approx(0.7)


def test_rows_as_a_frame(folder):
    pytest.importorskip("pandas")
    frame = fedagem.load_run(folder).rows_frame()
    assert list(frame.columns) == ["round", "trained", "stage", "client", "metric", "task", "value"]
    assert frame[frame.metric == "seconds"].value.sum() == pytest.approx(9.0)
    accuracy = frame[(frame.metric == "accuracy/domain_il") & frame.trained.isin([0, 2, 4])]
    assert accuracy.pivot(index="trained", columns="task", values="value").to_numpy().tolist() == MATRIX
    assert frame[frame.metric == "seconds"].task.isna().all()


def test_curves_and_results_as_frames(tmp_path):
    pytest.importorskip("pandas")
    run = fedagem.load_run(make_driving_run(tmp_path / "run", "fedavg", 0.3))
    curves = run.curves_frame()
    city = curves[curves.metric == "map_50/city"].set_index("trained").value
    assert city[4] == pytest.approx(0.4)
    results = run.results_frame().set_index(["name", "scope", "moment"]).value
    assert results["map_50", "city", "after"] == pytest.approx(0.25)


def test_without_pandas_one_sentence_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    run = fedagem.load_run(folder)
    for frame in (run.rows_frame, run.curves_frame, run.results_frame):
        with pytest.raises(FedAGemError, match="pandas, which is not installed: run `pip install pandas`"):
            frame()


def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(FedAGemError, match=r"has no metrics\.jsonl: the run has not begun, or this is not a run"):
        fedagem.load_run(tmp_path)
