"""The keys of a federation are for the user alone who makes them, whatever others may read by default."""

import stat
import subprocess
import sys
from pathlib import Path

CODE = "from src.prepare import certify; certify('localhost', ['vehicle_1', 'vehicle_2'])"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_are_made_for_this_user_alone(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "plan").mkdir()
    done = subprocess.run(
        ["sh", "-c", 'umask 022 && exec "$0" -c "$1"', sys.executable, CODE],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{repository / 'workspace'}:{repository}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    keys = sorted(path.name for path in tmp_path.rglob("*.key"))
    assert keys == ["agg_localhost.key", "col_vehicle_1.key", "col_vehicle_2.key", "root-ca.key", "signing-ca.key"]
    for path in (tmp_path / "cert").rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode(tmp_path / "cert") == 0o700
