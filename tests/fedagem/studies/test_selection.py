"""Parts of a study by method, one's own method in a table, weights that are missing, and the assembled main table."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.workspace import plan_folder
from fedagem.studies.comparison import Line
from fedagem.studies.main_table import agreement, markdown_main_table, terminal_main_table
from fedagem.studies.runs import runs_of
from fedagem.studies.selection import with_methods, with_weights_here
from fedagem.studies.study import Figure, load_study

PAPER = {"FL", "FL+A-GEM", "FL+DER", "FL+GPM", "FL+iCaRL", "FL+L2P", "FedCurv", "FedProx", "CFeD", "GLFC", "FOT"}


@pytest.fixture
def table():
    return load_study(plan_folder(), "table-1")


def test_the_main_table_has_all_methods_and_columns_of_the_paper(table):
    assert {row.label for part in table.parts for row in part.rows} == PAPER
    columns = [(part.shown or part.plan, metric) for part in table.parts for metric in part.metrics]
    assert list(dict.fromkeys(columns)) == [
        ("rotated_mnist", "accuracy.domain_il"),
        ("permuted_mnist", "accuracy.domain_il"),
        ("sequential_cifar10", "accuracy.class_il"),
        ("sequential_cifar10", "accuracy.task_il"),
        ("sequential_cifar100", "accuracy.class_il"),
        ("sequential_cifar100", "accuracy.task_il"),
    ]
    der = next(row for row in table.parts[-2].rows if row.method == "der")
    assert (der.without, der.with_) == (["13.32±1.6", "57.71±1.2"], ["22.96±3.6", "65.57±1.9"])


def test_its_runs_are_those_of_the_studies_that_it_is_made_of(table, tmp_path):
    assembled = {run.directory for run in runs_of(table, "smoke", 1, plan_folder(), tmp_path)}
    for name in ("rotated-mnist", "permuted-mnist", "seq-cifar10", "seq-cifar100"):
        study = load_study(plan_folder(), name)
        assert {run.directory for run in runs_of(study, "smoke", 1, plan_folder(), tmp_path)} <= assembled


def test_some_methods_are_a_part_of_the_table(table):
    chosen = with_methods(table, "fedprox, gpm")
    assert all({row.method for row in part.rows} == {"fedprox", "gpm"} for part in chosen.parts)
    assert [part.plan for part in with_methods(table, "icarl").parts] == ["sequential_cifar10", "sequential_cifar100"]


def test_ones_own_method_gets_a_row_in_every_part(table, tmp_path, monkeypatch):
    (tmp_path / "my_methods.py").write_text(
        "from fedagem.learning.methods.fedavg import FedAvg\nclass Mine(FedAvg):\n    'My own.'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    chosen = with_methods(table, "my_methods.Mine,fedavg")
    assert [[row.method for row in part.rows] for part in chosen.parts] == [["fedavg", "my_methods.Mine"]] * 4
    runs = [run for run in runs_of(chosen, "smoke", 1, plan_folder(), tmp_path) if run.label == "my_methods.Mine"]
    assert [run.side for run in runs] == ["without", "with"] * 4


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        ("fedprix", "--methods has 'fedprix'; did you mean fedprox"),
        ("ideal", "--methods has 'ideal', but the study table-1 has rows for agem, cfed"),
        ("no_package.Mine", "there is no package 'no_package' here"),
    ],
)
def test_methods_that_are_not_there_are_refused(table, methods, sentence):
    with pytest.raises(PlanError, match=sentence):
        with_methods(table, methods)


def test_a_row_whose_weights_are_missing_is_left_out_with_a_reason(table, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path / "data"))
    runs = runs_of(with_methods(table, "l2p,fedavg"), "smoke", 1, plan_folder(), tmp_path)
    kept, reasons = with_weights_here(runs)
    assert {run.label for run in kept} == {"FL"}
    [reason] = reasons
    assert reason.startswith("FL+L2P is left out: ")
    assert "model.safetensors is missing; `fedagem data` says where to get it." in reason
    with pytest.raises(PlanError, match=r"FL\+L2P is left out"):
        with_weights_here([run for run in runs if run.label == "FL+L2P"])


def line(label, without, with_, paper=(60.0, 70.0)):
    ours, theirs = [Figure(value, 1.0) for value in (without, with_)], [Figure(value, 2.0) for value in paper]
    return Line(
        "rotated_mnist", "accuracy.domain_il", label, theirs[0], ours[0], theirs[1], ours[1], theirs[0], ours[0]
    )


def test_the_main_table_tells_how_often_the_direction_is_the_papers():
    lines = [line("FL", 50.0, 60.0), line("FedProx", 60.0, 50.0), line("FOT", 50.0, 50.5)]
    assert agreement(lines) == (
        "Of 3 cells with a number of the paper, 1 change in its direction, 1 in the other one, and 1 by less than the "
        "spread of the seeds."
    )
    assert "| FL | ours | 50.0 ± 1.0 → 60.0 ± 1.0 |" in markdown_main_table(lines)
    assert "|  | paper | 60.0 ± 2.0 → 70.0 ± 2.0 |" in markdown_main_table(lines)
    assert terminal_main_table(lines).row_count == 3
