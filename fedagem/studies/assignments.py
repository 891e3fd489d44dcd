"""What `--set` may change in a study: everything but what tells its rows and runs apart."""

from collections.abc import Iterable

from fedagem.errors import PlanError
from fedagem.studies.setting_paths import overlap
from fedagem.studies.study import Study

_SEEDS = "the seeds of a study are 0, 1, and so on: say how many with --seeds"
_OWN = {
    "task_runner.settings.method": "the rows of this study vary the method",
    "task_runner.settings.method_settings": "the rows of this study vary the settings of the method",
    "task_runner.settings.fedagem": "every row of this study is run without and with Fed-A-GEM",
    "data_loader.settings.seed": _SEEDS,
    "assigner.settings.seed": _SEEDS,
    "aggregator.settings.rounds_to_train": "a study counts rounds by task: set data_loader.settings.rounds_per_task",
}
"""Settings that belong to every study, and why."""


def check_assignments(study: Study, assignments: Iterable[str]) -> None:
    """Refuse an assignment that would contradict the label of a row, or that the study would overrule in silence."""
    for assignment in assignments:
        path = assignment.partition("=")[0]
        for own, reason in _OWN.items():
            if overlap(path, own):
                raise PlanError(f"--set {assignment} cannot be used here: {reason}.")
        for row in (row for part in study.parts for row in part.rows):
            for varied in row.set:
                if overlap(path, varied):
                    raise PlanError(
                        f"--set {assignment} cannot be used here: the rows of this study vary {varied} (as in "
                        f"{row.label!r}), so leave it out, or write a study of your own in plan/studies."
                    )
