"""The commands of docs/federation.md, to be run as a reader would."""

import re
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SECONDS = 300
PRIVATE = 0o077
"""What the walk begins with: `umask 077`."""


class Section:
    """A section of the document: its text, and its blocks of commands."""

    def __init__(self, heading: str, replace: dict[str, str]) -> None:
        document = (REPOSITORY / "docs" / "federation.md").read_text()
        text = document.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        for old, new in replace.items():
            text = text.replace(old, new)
        assert text, f"there is no section {heading!r}"
        self.text = text
        self._blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    def block(self, number: int) -> list[str]:
        return [line for line in self._blocks[number].splitlines() if line.strip()]

    def commands(self, number: int, program: str = "fx") -> list[str]:
        """The lines of a block that run a program."""
        return [line for line in self.block(number) if line.startswith(f"{program} ")]


def checkout(folder: Path, plan: str | None = None) -> Path:
    """The workspace of a checkout as far as it matters here, with its link to the plans, and a plan to follow."""
    shutil.copytree(REPOSITORY / "workspace", folder / "workspace", symlinks=True)
    shutil.copytree(REPOSITORY / "plan", folder / "plan", ignore=shutil.ignore_patterns("plan.yaml"))
    if plan is not None:
        (folder / "plan" / "plan.yaml").write_text(plan)
    return folder / "workspace"


def run(folder: Path, line: str) -> None:
    """Run a command to its end, with yes to whatever it asks; it must succeed."""
    program, *arguments = shlex.split(line, comments=True)
    done = subprocess.run(
        [BIN / program, *arguments],
        cwd=folder,
        input="y\n",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        umask=PRIVATE,
    )
    assert done.returncode == 0, f"{line}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@contextmanager
def started(folder: Path, line: str, log: Path):
    """A command that runs meanwhile, with its output in a file; what is left of it at the end is killed."""
    program, *arguments = shlex.split(line, comments=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [BIN / program, *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT, umask=PRIVATE
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
