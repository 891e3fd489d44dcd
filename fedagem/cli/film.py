"""`fedagem film`: what the models of two methods saw in the evaluation frames, side by side."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="film")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The film, an .mp4 file.")
@click.option(
    "--still", type=click.Path(path_type=Path), help="Also write the picture of the film in which the two differ most."
)
def command(runs: tuple[Path, ...], out: Path, still: Path | None) -> None:
    """Film the evaluation frames of RUNS of one comparison, with the detections of two methods side by side.

    A folder that holds runs, such as that of `fedagem compare`, stands for all of them. FedAvg is left and the method
    with Fed-A-GEM right, first with the models that the runs kept before the shift, then with the later ones. Right
    boxes are green, missed objects red, false ones yellow, and all objects have a thin white frame.
    """
    from rich.console import Console
    from rich.progress import track

    from fedagem.cli.report import runs_in
    from fedagem.detection.footage import is_picture
    from fedagem.errors import FedAGemError
    from fedagem.reports.film import Film, choose_pair, write_film

    if out.suffix.lower() != ".mp4":
        raise FedAGemError(f"--out is {out}: a film is an .mp4 file.")
    if still is not None and not is_picture(still):
        raise FedAGemError(f"--still is {still}: a picture is a .jpg or .png file.")
    left, right = choose_pair(list(dict.fromkeys(run for folder in runs for run in runs_in(folder))))
    film = Film(left, right)
    console = Console()
    write_film(film, out, still, lambda shots: track(shots, "filming", len(film), console=console))
    console.print(f"{len(film)} frames of {left} and {right} in {out}", soft_wrap=True)
    if still is not None:
        console.print(f"picture: {still}", soft_wrap=True)
