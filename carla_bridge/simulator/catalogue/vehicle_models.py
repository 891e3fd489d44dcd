"""The vehicles of the blueprint library: CARLA's names, with sizes, handling and colours."""

from dataclasses import dataclass
from functools import cached_property

from carla_bridge.simulator.catalogue.semantics import Tag

PAINTS = (
    (17, 37, 103),
    (99, 12, 14),
    (180, 44, 43),
    (226, 226, 226),
    (74, 78, 82),
    (16, 17, 20),
    (127, 130, 132),
    (45, 86, 59),
    (185, 150, 60),
    (58, 110, 165),
)
LIVERIES = {
    "vehicle.dodge.charger_police": (24, 26, 30),
    "vehicle.dodge.charger_police_2020": (24, 26, 30),
    "vehicle.ford.ambulance": (240, 240, 235),
    "vehicle.ford.crown": (222, 178, 20),
    "vehicle.carlamotors.firetruck": (190, 20, 20),
    "vehicle.carlamotors.carlacola": (200, 30, 30),
}
SECOND_GENERATION = (
    "carlamotors.european_hgv",
    "carlamotors.firetruck",
    "ford.ambulance",
    "ford.crown",
    "mercedes.sprinter",
    "mitsubishi.fusorosa",
    "tesla.cybertruck",
)
"""Those of CARLA's second generation whose names do not end in their year."""


@dataclass(frozen=True)
class VehicleModel:
    """One blueprint. Two-wheelers' boxes include the rider."""

    blueprint: str
    base_type: str
    tag: Tag
    extent: tuple[float, float, float]
    """Half length, half width, half height."""
    mass: float
    acceleration: float
    """m/s² at full throttle from standstill."""
    top_speed: float
    """m/s."""
    wheels: int = 4
    special: str = ""

    @cached_property
    def wheelbase(self) -> float:
        return 1.16 * self.extent[0]

    @cached_property
    def max_steer(self) -> float:
        """Degrees of the front wheels at full lock."""
        return 45.0 if self.wheels == 4 and self.extent[0] > 3.5 else 40.0

    @property
    def generation(self) -> int:
        """CARLA's number for it: 2 for the models that were remodelled, 1 for all others."""
        name = self.blueprint.removeprefix("vehicle.")
        return 2 if name in SECOND_GENERATION or name.rsplit("_", 1)[-1] in ("2020", "2021") else 1

    @property
    def colours(self) -> tuple[tuple[int, int, int], ...]:
        livery = LIVERIES.get(self.blueprint)
        return PAINTS if livery is None else (livery,)


def vehicle_models() -> tuple[VehicleModel, ...]:
    """All vehicles, sorted by name."""
    models = [
        *(_car(*row) for row in _CARS),
        *(_van(*row) for row in _VANS),
        *(_heavy(*row) for row in _HEAVY),
        *(_two_wheeler(*row) for row in _TWO_WHEELERS),
    ]
    return tuple(sorted(models, key=lambda model: model.blueprint))


_CARS = (
    ("audi.a2", 1.85, 0.89, 0.78, ""),
    ("audi.etron", 2.43, 1.02, 0.82, "electric"),
    ("audi.tt", 2.09, 1.00, 0.69, ""),
    ("bmw.grandtourer", 2.30, 1.12, 0.83, ""),
    ("chevrolet.impala", 2.68, 1.02, 0.70, ""),
    ("citroen.c3", 1.99, 0.93, 0.81, ""),
    ("dodge.charger_2020", 2.50, 1.04, 0.77, ""),
    ("dodge.charger_police", 2.49, 1.02, 0.77, "emergency"),
    ("dodge.charger_police_2020", 2.62, 1.05, 0.82, "emergency"),
    ("ford.crown", 2.68, 1.00, 0.79, "taxi"),
    ("ford.mustang", 2.36, 0.95, 0.65, ""),
    ("jeep.wrangler_rubicon", 1.93, 0.95, 0.94, ""),
    ("lincoln.mkz_2017", 2.45, 1.06, 0.76, ""),
    ("lincoln.mkz_2020", 2.45, 1.06, 0.75, ""),
    ("mercedes.coupe", 2.51, 1.08, 0.83, ""),
    ("mercedes.coupe_2020", 2.34, 1.00, 0.72, ""),
    ("micro.microlino", 1.10, 0.74, 0.69, "electric"),
    ("mini.cooper_s", 1.90, 0.98, 0.74, ""),
    ("mini.cooper_s_2021", 2.28, 1.05, 0.88, ""),
    ("nissan.micra", 1.82, 0.92, 0.75, ""),
    ("nissan.patrol", 2.30, 0.97, 0.93, ""),
    ("nissan.patrol_2021", 2.78, 1.07, 1.02, ""),
    ("seat.leon", 2.10, 0.91, 0.74, ""),
    ("tesla.cybertruck", 3.14, 1.19, 1.05, "electric"),
    ("tesla.model3", 2.40, 1.08, 0.74, "electric"),
    ("toyota.prius", 2.26, 1.00, 0.76, "electric"),
)
_VANS = (
    ("ford.ambulance", 3.18, 1.18, 1.22, "emergency"),
    ("mercedes.sprinter", 2.96, 1.00, 1.28, ""),
    ("volkswagen.t2", 2.24, 1.03, 1.02, ""),
    ("volkswagen.t2_2021", 2.22, 1.00, 0.99, ""),
)
_HEAVY = (
    ("carlamotors.carlacola", "truck", Tag.TRUCK, 2.60, 1.25, 1.23, 5500.0, ""),
    ("carlamotors.european_hgv", "truck", Tag.TRUCK, 3.97, 1.27, 1.77, 9000.0, ""),
    ("carlamotors.firetruck", "truck", Tag.TRUCK, 4.23, 1.27, 1.91, 9000.0, "emergency"),
    ("mitsubishi.fusorosa", "bus", Tag.BUS, 5.14, 1.27, 1.62, 9000.0, ""),
)
_TWO_WHEELERS = (
    ("bh.crossbike", "bicycle", 0.78, 0.30, 0.88),
    ("diamondback.century", "bicycle", 0.82, 0.28, 0.88),
    ("gazelle.omafiets", "bicycle", 0.92, 0.28, 0.90),
    ("harley-davidson.low_rider", "motorcycle", 1.18, 0.42, 0.82),
    ("kawasaki.ninja", "motorcycle", 1.02, 0.40, 0.80),
    ("vespa.zx125", "motorcycle", 0.90, 0.40, 0.82),
    ("yamaha.yzf", "motorcycle", 1.10, 0.42, 0.80),
)


def _car(name: str, length: float, width: float, height: float, special: str) -> VehicleModel:
    mass = 500.0 * length + 400.0
    return VehicleModel(f"vehicle.{name}", "car", Tag.CAR, (length, width, height), mass, 4.5, 55.0, special=special)


def _van(name: str, length: float, width: float, height: float, special: str) -> VehicleModel:
    return VehicleModel(f"vehicle.{name}", "van", Tag.CAR, (length, width, height), 2300.0, 3.2, 42.0, special=special)


def _heavy(
    name: str, base: str, tag: Tag, length: float, width: float, height: float, mass: float, special: str
) -> VehicleModel:
    extent = (length, width, height)
    return VehicleModel(f"vehicle.{name}", base, tag, extent, mass, 1.8, 28.0, special=special)


def _two_wheeler(name: str, base: str, length: float, width: float, height: float) -> VehicleModel:
    motorised = base == "motorcycle"
    return VehicleModel(
        f"vehicle.{name}",
        base,
        Tag.MOTORCYCLE if motorised else Tag.BICYCLE,
        (length, width, height),
        250.0 if motorised else 90.0,
        5.0 if motorised else 1.5,
        50.0 if motorised else 8.0,
        wheels=2,
    )
