"""Where two surfaces meet, nothing shows through and nothing is darkened twice."""

import numpy as np
import pytest

from carla_bridge.simulator.catalogue.kinds import ObjectKind, SurfaceKind
from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering.renderer import PandaRenderer
from carla_bridge.simulator.scene import CameraView, Moment, Pose, Town, Weather
from tests.support.renderer_scene import rectangle, thing, vehicle

HOUSE = 200.0
"""Where the house is along x: far from the road where the cars are."""


@pytest.fixture(scope="module")
def renderer():
    house = thing(ObjectKind.HOUSE, (HOUSE, 0, 0), (14, 10, 8))
    made = PandaRenderer(Town("plain", [rectangle(SurfaceKind.CARRIAGEWAY, -60, -60, 60, 60)], [house]))
    yield made
    made.close()


def level_by_row(renderer: PandaRenderer, camera: CameraView, yaw: float, columns: slice) -> np.ndarray:
    """How bright the road is behind a car, row by row from the car downwards, as a share of what it is without one."""
    sun = Weather(sun_altitude=55, sun_azimuth=0)
    with_car, without = (
        renderer.draw(Moment.of(actors, weather=sun), [camera])[0]
        for actors in ([vehicle(3, "tesla.model3", Pose(0, 0, 0, yaw=yaw))], [])
    )
    below = int(np.flatnonzero((with_car.object_id == 3)[:, columns].any(axis=1))[-1]) + 2
    road, bare = (picture.bgra[below:, columns, :3].mean(axis=(1, 2)) for picture in (with_car, without))
    level: np.ndarray = road / bare
    return level


@pytest.mark.parametrize("back", [5.7, 6.0, 6.5, 8.0])
@pytest.mark.parametrize("yaw", [0.0, 180.0])
def test_a_shadow_is_smooth_from_row_to_row(renderer, back, yaw):
    chase = CameraView(Pose(-back, 0, 3, pitch=-15), 800, 600, 90.0)
    level = level_by_row(renderer, chase, yaw, slice(370, 430))
    assert level.min() < 0.6
    assert level[-1] > 0.98
    neighbours = np.minimum(level[:-2], level[2:])
    assert (level[1:-1] > neighbours - 0.05).all()


def test_shadows_that_overlap_do_not_depend_on_the_order_of_actors(renderer):
    camera = CameraView(Pose(-6, 0, 3, pitch=-15), 416, 256, 90.0)
    cars = [vehicle(3, "tesla.model3", Pose(0, -1.2, 0)), vehicle(4, "audi.a2", Pose(0.5, 1.2, 0))]
    one, other = (renderer.draw(Moment.of(actors), [camera])[0] for actors in (cars, cars[::-1]))
    np.testing.assert_array_equal(one.bgra, other.bgra)


@pytest.mark.parametrize("angles", [{}, {"roll": 30.0}, {"pitch": -60.0}])
def test_a_shadow_that_reaches_behind_the_camera_is_seen_where_it_is(renderer, angles):
    """The camera is beside the middle of a car, above the rim of its shadow, whose outline is cut there."""
    pose = Pose(0, 1.3, 1.2, **{"pitch": -35.0, **angles})
    car = vehicle(3, "tesla.model3", Pose(0, 0, 0))
    lit, shaded = (
        renderer.draw(Moment.of(actors, weather=Weather(sun_altitude=90)), [CameraView(pose, 400, 300, 100.0)])[0]
        for actors in ([], [car])
    )
    darker = (lit.bgra[..., :3].astype(int) - shaded.bgra[..., :3]).sum(axis=2) > 0
    outline = np.diff((shaded.object_id == 3).astype(int), axis=1, prepend=0, append=0) != 0
    dark = darker & (shaded.object_id == 0) & ~outline[:, :-1] & ~outline[:, 1:]
    assert dark.sum() > 500
    assert np.quantile(lit.depth[dark], 0.999) < car.extent[0] + 0.5 + 1.2


@pytest.mark.parametrize("bearing", range(0, 360, 15))
def test_no_sky_shows_between_the_walls_of_a_house_and_its_roof(renderer, bearing):
    """Seen by a level camera: columns of the picture that have some wall have house from there to the top."""
    x, y = HOUSE - 16 * np.cos(np.radians(bearing)), -16 * np.sin(np.radians(bearing))
    tags = renderer.draw(Moment(), [CameraView(Pose(x, y, 1.7, yaw=bearing), 640, 640, 90.0)])[0].tag
    house = tags == Tag.BUILDING
    walls = np.flatnonzero(house[320])[1:-1]
    assert len(walls) > 200
    below_the_top = np.maximum.accumulate(house[:320, walls], axis=0)
    np.testing.assert_array_equal(house[:320, walls], below_the_top)
