"""The findings of an audit as JSON, as pictures, and as a page that shows them side by side."""

import base64
import html
import io
import json
from collections.abc import Sequence
from pathlib import Path

from fedagem.audit.attack import RECONSTRUCTED, Finding
from fedagem.files import write_file

_SHOWN = 8
"""How many images of a finding are shown: those that were found best."""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Audit of {name}</title>
<style>body {{ font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }} img {{ max-width: 100% }}
</style></head><body>
<h1>What an aggregator sees: audit of {name}</h1>
<p>{summary}</p>
<p>In each picture the true images are above, and the reconstruction that is most like each of them below, those first
that were found best. An image counts as reconstructed from {bound:g} dB on.</p>
{sections}
</body></html>
"""


def write_report(found: Sequence[Finding], name: str, folder: Path) -> list[Path]:
    """Write audit.json, a picture for each finding, and audit.html."""
    rows, sections, paths = [], [], []
    for number, finding in enumerate(found, start=1):
        picture = _picture(finding)
        path = folder / f"{number:02d}-{finding.source.replace(' ', '-')}.png"
        write_file(path, picture)
        paths.append(path)
        best = max(finding.psnr)
        rows.append(
            {
                "source": finding.source,
                "samples": finding.samples,
                "reconstructed": finding.reconstructed,
                "best_psnr": best,
                "psnr": finding.psnr,
            }
        )
        address = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
        title = html.escape(f"{finding.source}, {finding.samples} samples: {finding.verdict}, best {best:.1f} dB")
        sections.append(f'<h2>{title}</h2>\n<img src="{address}" alt="{title}">')
    summary = html.escape(summary_of(found))
    content = _PAGE.format(name=html.escape(name), summary=summary, bound=RECONSTRUCTED, sections="\n".join(sections))
    write_file(folder / "audit.json", json.dumps(rows, indent=2))
    write_file(folder / "audit.html", content)
    return [folder / "audit.html", folder / "audit.json", *paths]


def summary_of(found: Sequence[Finding]) -> str:
    """One sentence over all findings."""
    leaking = [finding.source for finding in found if finding.reconstructed]
    if not leaking:
        return "Nothing was reconstructed."
    return f"Images were reconstructed from: {', '.join(leaking)}."


def _picture(finding: Finding) -> bytes:
    from matplotlib.figure import Figure

    order = sorted(range(len(finding.psnr)), key=lambda place: -finding.psnr[place])[:_SHOWN]
    figure = Figure(figsize=(1.2 * len(order), 2.8), layout="constrained")
    axes = figure.subplots(2, len(order), squeeze=False)
    for column, place in zip(axes.T, order, strict=True):
        for cell, image in zip(column, (finding.images[place], finding.guesses[place]), strict=True):
            cell.axis("off")
            cell.imshow(image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1)
        column[1].set_title(f"{finding.psnr[place]:.1f} dB", fontsize=8)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=90)
    return content.getvalue()
