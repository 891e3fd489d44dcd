"""Folders and files that cannot be used end every command in one sentence."""

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.plans.plan import Plan


@pytest.fixture
def said(tmp_path, monkeypatch, repository):
    """Runs a command in a folder with broken files and gives what it says; PLAN is a good plan."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    plan = repository / "plan" / "rotated_digits.yaml"
    for name, frozen, metrics in (
        ("broken", "a: [1", ""),
        ("other", "a: 1", ""),
        ("damaged", Plan.load(plan).to_yaml(), "not json\n"),
    ):
        (tmp_path / name / "plan").mkdir(parents=True)
        for file in ("plan.yaml", "requested.yaml"):
            (tmp_path / name / "plan" / file).write_text(frozen)
        (tmp_path / name / "metrics.jsonl").write_text(metrics)

    def run(*words):
        result = CliRunner().invoke(main, [str(plan) if word == "PLAN" else word for word in words])
        assert isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == 2
        return " ".join(result.output.split())

    return run


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["simulate", "PLAN", "--out", "file"], "file is a file: choose another folder for the run (--out)."),
        (["simulate", "PLAN", "--out", "file/run"], "file/.run.partial: Not a directory."),
        (["compare", "PLAN", "--out", "file"], "file is a file: choose another folder for the comparison (--out)."),
        (["compare", "PLAN", "--out", "file/a/b"], "file is a file: choose another folder for the comparison (--out)."),
        (["simulate", "PLAN", "--resume", "--out", "broken"], "broken/plan/requested.yaml is not valid YAML"),
        (
            ["simulate", "PLAN", "--resume", "--out", "other"],
            "other/plan/requested.yaml is not the plan of a run of this ",
        ),
        (["report", "empty"], "empty is not a run and holds none: there is no plan/plan.yaml in it or below it."),
        (["report", "file"], "file is not a run and holds none"),
        (["report", "broken"], "broken/plan/plan.yaml is not valid YAML"),
        (["report", "other"], "other/plan/plan.yaml is not the plan of a run of this version: the plan has no section"),
        (["report", "damaged"], "damaged/metrics.jsonl is damaged: it must hold one JSON object in every line"),
    ],
)
def test_what_cannot_be_used_is_named(said, words, sentence):
    assert sentence in said(*words)
