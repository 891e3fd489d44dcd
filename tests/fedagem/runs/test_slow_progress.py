"""The time that is left of a run whose rounds take minutes."""

from fedagem.runs.live.many_runs import BatchView
from fedagem.runs.live.one_run import LiveView


def left_after_two_rounds(progress, minutes_per_round):
    """What a bar over five rounds says is left when two of them are over."""
    now = 0.0
    progress.get_time = lambda: now
    bar = progress.add_task("run", total=5, facts="")
    for rounds in (1, 2):
        now += 60 * minutes_per_round
        progress.update(bar, completed=rounds)
    return progress.tasks[-1].time_remaining


def test_rounds_of_minutes_and_of_hours_have_a_time_left(tmp_path):
    for progress in (LiveView(tmp_path, "run", 5)._progress, BatchView(5, 0)._progress):
        assert left_after_two_rounds(progress, 2) == 6 * 60
        assert left_after_two_rounds(progress, 200) == 600 * 60
