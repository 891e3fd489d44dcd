"""The live view's table says what it counts."""

import json

from fedagem.live_view import LiveView


def test_samples_are_counted_once_for_each_epoch(tmp_path):
    """A client reports the samples that it learned from in a round, each as often as the round had epochs."""
    rows = [
        {"round": number, "stage": "train", "client": "client_1", "metric": "samples", "value": 30}
        for number in range(2)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    view = LiveView(tmp_path, "run", 20)
    view.refresh()
    [counted] = [column for column in view._table().columns if column.header == "samples × epochs"]
    assert list(counted.cells) == ["60"]
