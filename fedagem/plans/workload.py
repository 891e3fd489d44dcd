"""What the clients of a plan learn from: the tasks of a benchmark, or what vehicles see."""

from dataclasses import dataclass

from carla_bridge.config.parts import EVERYWHERE, ScheduleEvent
from carla_bridge.config.section import CarlaSettings
from fedagem.plans.driving import DrivingSettings, Leg
from fedagem.tasks.settings import StreamSettings


@dataclass(frozen=True)
class TaskWorkload:
    """Clients that learn one task after the other."""

    data: StreamSettings

    @property
    def collaborators(self) -> dict[str, str]:
        """The clients of a run on one machine and their data paths, which are ranks."""
        width = len(str(self.data.clients))
        return {f"client_{rank + 1:0{width}d}": str(rank) for rank in range(self.data.clients)}

    @property
    def shift_round(self) -> None:
        """Tasks have ends, but no round at which everything shifts."""
        return None


@dataclass(frozen=True)
class DrivingWorkload:
    """Vehicles that learn from the frames of their cameras, driven live or replayed."""

    data: DrivingSettings
    carla: CarlaSettings | None

    @property
    def collaborators(self) -> dict[str, str]:
        """The vehicles, whose data paths are their names."""
        return {name: name for name in self.data.vehicles}

    @property
    def frames_per_second(self) -> float:
        """Frames of a vehicle in a simulation second: the drive's, or those of snippets without time stamps."""
        return self.carla.frames_per_second if self.carla is not None else 1 / self.data.frame_period

    @property
    def frames_per_round(self) -> int:
        """At most so many frames reach a vehicle in a round."""
        return int(self.data.seconds_per_round * self.frames_per_second) + 1

    @property
    def shift_round(self) -> int | None:
        """The first round in which a vehicle is in another domain than at the beginning."""
        if self.carla is not None:
            moves = [move.at for move in _moves_away(self.carla)]
            return int(min(moves) // self.data.seconds_per_round) if moves else None
        later = [
            leg.from_round
            for first, *others in self.data.snippets.values()
            for leg in others
            if _shows(leg) != _shows(first)
        ]
        return min(later, default=None)

    @property
    def first_domain(self) -> str | None:
        """Where the vehicles begin; None if nothing says it."""
        regions = [vehicle.region for vehicle in self.carla.vehicles] if self.carla is not None else []
        replayed = [legs[0].domain for legs in self.data.snippets.values() if legs]
        named = [region for region in regions if region != EVERYWHERE]
        return next((domain for domain in (*named, *replayed, *self.data.domains) if domain), None)


Workload = TaskWorkload | DrivingWorkload


def _moves_away(carla: CarlaSettings) -> list[ScheduleEvent]:
    """Moves of a vehicle into another region than it begins in."""
    moves = sorted((event for event in carla.schedule if event.region is not None), key=lambda move: move.at)
    regions = {vehicle.name: vehicle.region for vehicle in carla.vehicles}
    regions |= {move.vehicle: move.region for move in moves if move.at <= 0 and move.vehicle and move.region}
    return [move for move in moves if move.at > 0 and move.region != regions.get(move.vehicle or "", EVERYWHERE)]


def _shows(leg: Leg) -> str | list[str]:
    """A leg's domain; if it has no name, the drives themselves stand for it."""
    return leg.domain or leg.paths
