"""`fedagem anchors`: anchor shapes for a plan from the boxes of recorded drives."""

from __future__ import annotations

from pathlib import Path

import click

from fedagem.errors import FedAGemError


class SizeType(click.ParamType[tuple[int, int]]):
    """A size in pixels, written like 416x256."""

    name = "WxH"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        width, _, height = str(value).lower().partition("x")
        if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
            self.fail(f"{value!r} is not a size like 416x256", param, ctx)
        return int(width), int(height)


@click.command("anchors")
@click.argument("snippets", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--count", default=5, show_default=True, help="Number of anchors.")
@click.option("--size", type=SizeType(), default="416x256", show_default=True, help="The network's input.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Also write the YAML here.")
def command(snippets: tuple[Path, ...], count: int, size: tuple[int, int], seed: int, out: Path | None) -> None:
    """Anchors that fit the boxes in SNIPPETS, as a piece of YAML to put into a plan."""
    import torch

    from fedagem.detection.anchors import cluster_anchors
    from fedagem.detection.drives import SnippetFrames
    from models.letterbox import Letterbox
    from models.tiny_yolo import STRIDE

    if size[0] % STRIDE or size[1] % STRIDE:
        raise FedAGemError(f"--size {size[0]}x{size[1]}: both sides must be multiples of {STRIDE}.")
    sizes = []
    for directory in snippets:
        for frame_size, boxes in SnippetFrames(directory).boxes():
            scale = Letterbox(frame_size, size).content_size[0] / frame_size[0]
            sizes.append(torch.from_numpy(boxes[:, 2:]) * scale)
    try:
        anchors = cluster_anchors(torch.cat(sizes), count, seed=seed)
    except ValueError as error:
        raise FedAGemError(f"{error}.") from error
    text = (
        f"# {count} anchors in cells of {STRIDE} pixels, from {anchors.boxes} boxes at {size[0]}x{size[1]}, "
        f"mean IoU {anchors.mean_iou:.3f}\n"
        f"anchors: {[list(anchor) for anchor in anchors.sizes]}\n"
    )
    click.echo(text, nl=False)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
