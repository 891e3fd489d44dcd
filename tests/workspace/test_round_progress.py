"""Where a round stands, without OpenFL: stages, who is awaited, and when a stage is complete."""

import ast

from fedagem.plans.rounds import Stage
from src.round_progress import RoundProgress


class Rounds:
    """Three stages, the last one in every second round; a and b learn, everybody evaluates."""

    stages = (
        Stage(name="gradient", tasks=["gradient"]),
        Stage(name="train", tasks=["train"]),
        Stage(name="evaluate", tasks=["evaluate"], every=2),
    )

    def stages_of(self, round_number):
        return [stage for stage in self.stages if stage.runs_in(round_number)]

    def members(self, stage, round_number):
        return ["a", "b", "c"] if stage.name == "evaluate" else ["a", "b"]


def progress(without=("gradient",)):
    return RoundProgress[str](Rounds(), lambda stage: stage.name not in without, 0)


def test_a_round_goes_through_its_stages():
    here = progress(without=())
    names = []
    while not here.finished:
        names.append(here.stage.name)
        here.next_stage()
    assert names == ["gradient", "train"]
    here.begin_round(1)
    assert (here.round_number, here.finished, here.stage.name) == (1, False, "gradient")
    assert len([here.next_stage() for _ in range(3)]) == 3
    assert here.finished
    assert here.outstanding("a") == []


def test_a_stage_without_work_is_left_out():
    assert progress().stage.name == "train"


def test_a_result_is_awaited_until_it_is_there():
    here = progress()
    assert here.outstanding("a") == ["train"]
    assert here.outstanding("c") == [], "it does not learn"
    here.take("train", "b", "of b")
    here.take("train", "a", "of a")
    assert here.outstanding("a") == []
    assert here.done() == ["a", "b"], "in the order of the schedule"
    assert list(here.results("train", ["a", "b"]).items()) == [("a", "of a"), ("b", "of b")]


def test_a_refused_client_is_not_awaited_until_the_next_stage():
    here = progress()
    here.take("train", "a", "of a")
    here.refuse("b")
    assert here.outstanding("b") == []
    assert (here.awaited(), here.completed(), here.done()) == (1, 1, ["a"])
    here.begin_round(1)
    assert here.outstanding("b") == ["train"]
    assert here.done() == []


def test_when_all_are_refused_nobody_is_awaited():
    here = progress()
    here.refuse("a")
    here.refuse("b")
    assert here.awaited() == 0


def test_time_counts_from_the_beginning_of_the_stage(monkeypatch):
    here = progress()
    began = here.began
    monkeypatch.setattr("src.round_progress.time.monotonic", lambda: began + 5)
    assert here.seconds == 5
    here.next_stage()
    assert here.seconds == 0


def test_it_needs_no_openfl(repository):
    tree = ast.parse((repository / "workspace" / "src" / "round_progress.py").read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert not [name for name in modules if name.partition(".")[0] in {"openfl", "src"}]
