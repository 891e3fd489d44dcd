"""Run every benchmark of this folder, each in a process of its own."""

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run them in alphabetical order; the exit code says whether all ran."""
    folder = Path(__file__).parent
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    failed = []
    for name in names:
        if "def main(" not in (folder / f"{name}.py").read_text(encoding="utf-8"):
            continue
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
