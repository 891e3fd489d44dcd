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
    def domains_of_shift(self) -> tuple[str | None, str | None]:
        """The domain that the vehicles begin in and the first other one that they move to, if the plan names them."""
        vehicles, schedule = (self.carla.vehicles, self.carla.schedule) if self.carla is not None else ((), ())
        later_legs = sorted((leg for legs in self.data.snippets.values() for leg in legs[1:]), key=_from_round)
        beginnings = [
            *(vehicle.region for vehicle in vehicles if vehicle.region != EVERYWHERE),
            *(legs[0].domain for legs in self.data.snippets.values() if legs),
            *self.data.domains,
        ]
        first = next((domain for domain in beginnings if domain), None)
        moves = [
            *(event.region for event in sorted(schedule, key=lambda event: event.at)),
            *(leg.domain for leg in later_legs),
            *(self.data.domains if len(self.data.domains) == 2 else []),
        ]
        return first, next((domain for domain in moves if domain and domain != first), None)


Workload = TaskWorkload | DrivingWorkload


def _moves_away(carla: CarlaSettings) -> list[ScheduleEvent]:
    """Moves of a vehicle into another region than it begins in."""
    moves = sorted((event for event in carla.schedule if event.region is not None), key=lambda move: move.at)
    regions = {vehicle.name: vehicle.region for vehicle in carla.vehicles}
    regions |= {move.vehicle: move.region for move in moves if move.at <= 0 and move.vehicle and move.region}
    return [move for move in moves if move.at > 0 and move.region != regions.get(move.vehicle or "", EVERYWHERE)]


def _from_round(leg: Leg) -> int:
    return leg.from_round


def _shows(leg: Leg) -> str | list[str]:
    """A leg's domain; if it has no name, the drives themselves stand for it."""
    return leg.domain or leg.paths
