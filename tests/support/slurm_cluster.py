"""A real Slurm cluster of one node, all in one folder: its own munge, controller and node daemon on free ports.

It needs Debian's packages slurmctld, slurmd, slurm-client and munge, no root, no accounting database and no cgroups.
"""

import getpass
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from tests.support.waiting import wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing_programs() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program, path=_PATH) is None]


def _free_port() -> int:
    """A port that nobody listens on now; Slurm's daemons cannot be told to choose one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class SlurmCluster:
    """A context in which the cluster runs; `SLURM_CONF` in the environment lets Slurm's commands find it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.conf = folder / "slurm.conf"

    def start(self, name: str, *options: str) -> None:
        """Start a daemon in the foreground, as a process of ours."""
        with (self._folder / f"{name}.out").open("ab") as output:
            program = shutil.which(name, path=_PATH)
            assert program
            environment = {**os.environ, "SLURM_CONF": str(self.conf)}
            self._daemons[name] = subprocess.Popen([program, *options], stdout=output, stderr=output, env=environment)

    def kill(self, name: str) -> None:
        self._daemons[name].kill()
        self._daemons[name].wait()

    def wait_until_ready(self) -> None:
        wait_for(lambda: "idle" in self.ask("sinfo", "--noheader", "--format", "%T"), 60, self.said)

    def ask(self, *command: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    def said(self) -> str:
        """What the daemons have said, for somebody who wonders why nothing happens."""
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self._folder.glob("*.out"))

    def __enter__(self) -> "SlurmCluster":
        for name in ("state", "spool"):
            (self._folder / name).mkdir()
        key, sock = self._folder / "munge.key", self._folder / "munge.socket"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self.conf.write_text(self._configuration(sock))
        files = [f"--{name}-file={self._folder / f'munge.{name}'}" for name in ("pid", "log", "seed")]
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}", *files)
        wait_for(sock.exists, 30, self.said)
        self.start("slurmctld", "-D", "-c")
        self.start("slurmd", "-D")
        self.wait_until_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ask("scancel", "--user", str(os.getuid()))
        for name in ("slurmd", "slurmctld", "munged"):
            if name in self._daemons:
                self._daemons[name].terminate()
                self._daemons[name].wait(60)

    def _configuration(self, munge: Path) -> str:
        host, user = socket.gethostname(), getpass.getuser()
        return f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={_free_port()}
SlurmdPort={_free_port()}
AuthType=auth/munge
AuthInfo=socket={munge}
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={self._folder}/state
SlurmdSpoolDir={self._folder}/spool
SlurmctldPidFile={self._folder}/slurmctld.pid
SlurmdPidFile={self._folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
JobRequeue=1
MinJobAge=10
SchedulerParameters=batch_sched_delay=0,sched_interval=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
