"""Many runs for one question: in parallel if asked, each in its own folder, resumable one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedagem.plans.plan import Plan
from fedagem.runs.federation import start_federation, start_simulation
from fedagem.runs.folder import create_run, is_run, resume_run
from fedagem.runs.live.many_runs import BatchView
from fedagem.runs.live.run_watch import RunWatch
from fedagem.runs.parallel import Check, run_in_parallel
from fedagem.runs.processes import ProcessGroup
from fedagem.runs.results import rounds_in_results, write_final_results


@dataclass(frozen=True)
class Job:
    """One run: a complete plan and where it goes."""

    title: str
    requested: Plan
    """What the user asked for: a run of another plan is not resumed."""
    plan: Plan
    """What its processes follow: the same, with what this start found."""
    directory: Path
    federated: bool = False
    """As a real federation of `fx` processes instead of a simulation; the numbers are the same."""
    workers: int = 1
    """Processes that the clients of a simulation share."""

    @property
    def finished(self) -> bool:
        """Whether the results of all its rounds are there."""
        return rounds_in_results(self.directory) >= self.plan.aggregator.rounds_to_train


def run_jobs(jobs: Sequence[Job], parallel: int) -> None:
    """Complete every run: keep finished ones of the same plan, resume those that were begun, start the others.

    The first failure, or an interrupt, stops the rest; what they have learned so far stays on disk.
    """
    check_finished(jobs)
    todo = list({job.directory: job for job in jobs if not job.finished}.values())
    with BatchView(len(jobs), len(jobs) - len(todo)) as view:
        run_in_parallel([partial(run_job, job, view) for job in todo], parallel)


def check_finished(jobs: Sequence[Job]) -> None:
    """Refuse results that another plan or version has left where a run belongs."""
    for job in jobs:
        if job.finished:
            resume_run(job.directory, job.requested)


def run_job(job: Job, view: BatchView, check: Check) -> None:
    """Complete one run, new or begun before, and write its results."""
    rounds = job.plan.aggregator.rounds_to_train
    with view.run(job.title, RunWatch(job.directory), rounds) as bar:
        if is_run(job.directory):
            resume_run(job.directory, job.requested)
        else:
            create_run(job.directory, job.requested)

        def refresh() -> None:
            check()
            view.refresh(bar)

        with ProcessGroup(job.directory) as group:
            if job.federated:
                start_federation(group, job.plan)
            else:
                start_simulation(group, job.plan, job.workers)
            group.wait(refresh)
        write_final_results(job.directory)
