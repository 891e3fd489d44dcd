"""Weather, lamps and repeatability."""

import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering.renderer import PandaRenderer
from carla_bridge.simulator.scene import Moment, Picture, Pose, Weather
from tests.support.renderer_scene import street, traffic, vehicle, view

IMAGES = ("bgra", "tag", "object_id", "depth")


@pytest.fixture(scope="module")
def renderer():
    made = PandaRenderer(street())
    yield made
    made.close()


def brightness(picture: Picture, mask: np.ndarray | None = None) -> float:
    colours = picture.bgra[..., :3] if mask is None else picture.bgra[mask][:, :3]
    return float(colours.mean())


def assert_equal(a: Picture, b: Picture) -> None:
    for image in IMAGES:
        np.testing.assert_array_equal(getattr(a, image), getattr(b, image))


def test_equal_arguments_give_equal_bits_whatever_was_drawn_before(renderer):
    moment = Moment.of(traffic(), weather=Weather(sun_altitude=30, fog_density=10))
    first = renderer.draw(moment, [view(), view(x=30, yaw=170)])
    renderer.draw(Moment.of(traffic()[::-1][:25], weather=Weather(sun_altitude=-10)), [view(x=10, yaw=77), view(z=40)])
    again = renderer.draw(moment, [view(), view(x=30, yaw=170)])
    fresh = PandaRenderer(street())
    separately = fresh.draw(moment, [view(x=30, yaw=170)])
    fresh.close()
    for a, b in zip(first, again, strict=True):
        assert_equal(a, b)
    assert_equal(first[1], separately[0])


def test_the_order_of_actors_does_not_matter(renderer):
    assert_equal(
        renderer.draw(Moment.of(traffic()), [view()])[0], renderer.draw(Moment.of(traffic()[::-1]), [view()])[0]
    )


def test_a_worker_thread_draws_the_same(renderer):
    found: list[Picture] = []

    def work() -> None:
        own = PandaRenderer(street())
        found.extend(own.draw(Moment.of(traffic()), [view()]))
        own.close()

    worker = threading.Thread(target=work)
    worker.start()
    worker.join(timeout=120)
    assert_equal(found[0], renderer.draw(Moment.of(traffic()), [view()])[0])


def test_pictures_belong_to_the_caller(renderer):
    kept = renderer.draw(Moment.of(traffic()), [view()])[0]
    before = {image: getattr(kept, image).copy() for image in IMAGES}
    renderer.draw(Moment(), [view(yaw=180)])
    for image in IMAGES:
        np.testing.assert_array_equal(getattr(kept, image), before[image])


def test_fog_takes_contrast_and_leaves_identity(renderer):
    pictures = [
        renderer.draw(Moment.of(traffic(), weather=Weather(fog_density=density)), [view()])[0]
        for density in (0, 20, 50, 100)
    ]
    beyond = pictures[0].depth > 15
    contrast = [float(picture.bgra[beyond][:, :3].std()) for picture in pictures]
    assert contrast == sorted(contrast, reverse=True)
    assert contrast[-1] < 0.5 * contrast[0]
    for picture in pictures[1:]:
        np.testing.assert_array_equal(picture.object_id, pictures[0].object_id)
        np.testing.assert_array_equal(picture.depth, pictures[0].depth)


def test_fog_hides_the_far_before_the_near(renderer):
    clear, foggy = (renderer.draw(Moment(weather=Weather(fog_density=density)), [view()])[0] for density in (0, 30))
    change = np.abs(clear.bgra[..., :3].astype(int) - foggy.bgra[..., :3]).mean(axis=2)
    solid = clear.tag == Tag.BUILDING
    near, far = solid & (clear.depth < 25), solid & (clear.depth > 60)
    assert change[far].mean() > change[near].mean()


def test_the_sinking_sun_darkens(renderer):
    levels = [
        brightness(renderer.draw(Moment(weather=Weather(sun_altitude=altitude)), [view()])[0])
        for altitude in (50, 15, 5, 0, -5, -30)
    ]
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] < 0.3 * levels[0]


def test_rain_darkens_the_road(renderer):
    dry, wet = (
        renderer.draw(Moment(weather=Weather(cloudiness=90, precipitation=p, wetness=p)), [view()])[0] for p in (0, 80)
    )
    near_road = (dry.tag == Tag.ROAD) & (dry.depth < 10)
    assert brightness(wet, near_road) < 0.85 * brightness(dry, near_road)


def test_windows_are_lit_at_night(renderer):
    night = renderer.draw(Moment(weather=Weather(sun_altitude=-30)), [view()])[0]
    walls = night.bgra[night.tag == Tag.BUILDING].astype(int)
    warm = (walls[:, 2] > 150) & (walls[:, 2] > walls[:, 0] + 40)
    assert 0.01 < warm.mean() < 0.5


def test_the_sun_lights_the_side_it_shines_on(renderer):
    west, east = (
        renderer.draw(Moment(weather=Weather(sun_azimuth=azimuth, sun_altitude=25)), [view(yaw=-90)])[0]
        for azimuth in (90, 270)
    )
    wall = west.tag == Tag.BUILDING
    assert brightness(west, wall) > 1.15 * brightness(east, wall)


@pytest.mark.parametrize(("state", "channel"), [(0, 2), (2, 1)])
def test_traffic_lights_show_their_state(renderer, state, channel):
    where = [view(x=28, y=4, z=4, pitch=8)]
    shown, off = (renderer.draw(Moment(traffic_lights={0xC001: s}), where)[0] for s in (state, 3))
    light = shown.object_id == 0xC001
    assert light.sum() > 100
    difference = shown.bgra[light].astype(int) - off.bgra[light]
    assert difference[:, channel].max() > 120
    assert (shown.bgra[~light] == off.bgra[~light]).all()


def test_brake_lamps_glow_in_the_dark(renderer):
    night = Weather(sun_altitude=-30)
    dark, braking = (
        renderer.draw(
            Moment.of([vehicle(5, "tesla.model3", Pose(8, 0.5, 0), lights=lights)], weather=night), [view(x=0)]
        )[0]
        for lights in (0, 8)
    )
    car = dark.object_id == 5
    np.testing.assert_array_equal(car, braking.object_id == 5)
    assert braking.bgra[car][:, 2].max() > dark.bgra[car][:, 2].max() + 100


def test_memory_stays_flat(renderer):
    def drive(frames: range) -> None:
        for frame in frames:
            actors = [
                vehicle(1000 * frame + n, "audi.a2", Pose(5 + 4 * n + 0.01 * frame, 0, 0, yaw=float(frame)))
                for n in range(12)
            ]
            renderer.draw(Moment.of(actors), [view(x=0.01 * frame, yaw=0.1 * frame)])

    process = psutil.Process()
    drive(range(60))
    before = process.memory_info().rss
    drive(range(60, 260))
    assert process.memory_info().rss - before < 6e6


def test_it_says_nothing_on_its_own():
    script = (
        "from carla_bridge.simulator.rendering.renderer import PandaRenderer\n"
        "from carla_bridge.simulator.scene import Moment\n"
        "from tests.support.renderer_scene import street, traffic, view\n"
        "renderer = PandaRenderer(street())\n"
        "renderer.draw(Moment.of(traffic()), [view()])\n"
        "renderer.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
