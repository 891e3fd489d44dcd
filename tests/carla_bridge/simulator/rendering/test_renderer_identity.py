"""Who is in which pixel, exactly."""

import numpy as np
import pytest

from carla_bridge.simulator.catalogue.kinds import ObjectKind, SurfaceKind
from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering import occlusion, visible
from carla_bridge.simulator.rendering.renderer import PandaRenderer
from carla_bridge.simulator.scene import Moment, MovingObject, Picture, Pose, Town
from tests.support.renderer_scene import WALKER, rectangle, street, thing, traffic, vehicle, view


@pytest.fixture(scope="module")
def renderer():
    made = PandaRenderer(street())
    yield made
    made.close()


def names(picture: Picture) -> set[tuple[int, int]]:
    pairs = np.stack([picture.tag.ravel(), picture.object_id.ravel()], axis=1)
    return {(int(tag), int(object_id)) for tag, object_id in np.unique(pairs, axis=0)}


def test_every_pixel_names_something_that_exists(renderer):
    town, actors = street(), traffic()
    expected = {(int(thing.tag), thing.object_id) for thing in town.objects}
    expected |= {(int(surface.tag), 0) for surface in town.surfaces}
    expected |= {(int(Tag.SKY), 0), (int(Tag.TERRAIN), 0)}
    for actor in actors:
        expected.add((actor.tag, actor.actor_id))
        if actor.tag in (Tag.MOTORCYCLE, Tag.BICYCLE):
            expected.add((int(Tag.RIDER), actor.actor_id))
    seen: set[tuple[int, int]] = set()
    views = [view(), view(x=40, pitch=-10, yaw=30, roll=5), view(x=60, y=-3, z=9, pitch=-25, yaw=170), view(yaw=90)]
    for picture in renderer.draw(Moment.of(actors), views):
        found = names(picture)
        assert found <= expected, found - expected
        seen |= found
    tags = {tag for tag, _ in seen}
    assert {Tag.BUILDING, Tag.VEGETATION, Tag.POLE, Tag.ROAD_LINE, Tag.TRAFFIC_LIGHT, Tag.RIDER, Tag.TRUCK} <= tags


def test_a_mask_is_exactly_what_the_objects_absence_changes(renderer):
    actors = traffic()
    whole = renderer.draw(Moment.of(actors), [view()])[0]
    ids = [int(i) for i in np.unique(whole.object_id) if 0 < i < 0xC000]
    assert len(ids) > 10
    for object_id in ids:
        rest = [actor for actor in actors if actor.actor_id != object_id]
        without = renderer.draw(Moment.of(rest), [view()])[0]
        changed = (without.object_id != whole.object_id) | (without.tag != whole.tag)
        changed |= without.depth != whole.depth
        np.testing.assert_array_equal(changed, whole.object_id == object_id)


def test_riders_share_their_vehicles_id_under_their_own_tag(renderer):
    bike = vehicle(77, "gazelle.omafiets", Pose(4, 0, 0, yaw=90))
    motorbike = vehicle(78, "yamaha.yzf", Pose(4, 2, 0, yaw=90))
    picture = renderer.draw(Moment.of([bike, motorbike]), [view(x=0, y=1, z=1.2)])[0]
    for actor in (bike, motorbike):
        tags, counts = np.unique(picture.tag[picture.object_id == actor.actor_id], return_counts=True)
        assert tags.tolist() == sorted([int(Tag.RIDER), actor.tag])
        assert counts.min() > 50


def test_images_do_not_depend_on_how_many_codes_a_pass_has(renderer, monkeypatch):
    moment, where = Moment.of(traffic()), [view(), view(x=50, yaw=180, z=4, pitch=-10)]
    enough = renderer.draw(moment, where)
    monkeypatch.setattr(visible, "CODES_PER_PASS", 5)
    for many, few in zip(enough, renderer.draw(moment, where), strict=True):
        assert len(np.unique(many.object_id)) > 12
        for image in ("bgra", "tag", "object_id", "depth"):
            np.testing.assert_array_equal(getattr(many, image), getattr(few, image))


def test_a_crowd_larger_than_the_codes_keeps_its_names():
    square = Town("square", [rectangle(SurfaceKind.PLAZA, -50, -50, 90, 90)], [])
    renderer = PandaRenderer(square)
    crowd = [
        MovingObject(1 + n, f"walker.pedestrian.{n:04d}", Pose(6 + n // 20, n % 20 - 9.5, 0), WALKER, 12)
        for n in range(400)
    ]
    above = view(x=-8, y=0, z=16, pitch=-45)
    picture = renderer.draw(Moment.of(crowd), [above])[0]
    found = np.unique(picture.object_id)
    assert len(found) > 380
    far = crowd[-1]
    alone = renderer.draw(Moment.of([far]), [above])[0]
    shown = picture.object_id == far.actor_id
    assert shown.any()
    assert (alone.object_id[shown] == far.actor_id).all()
    renderer.close()


def test_actor_ids_are_taken_modulo_sixteen_bits(renderer):
    far_id = vehicle(3 * 65536 + 21, "tesla.model3", Pose(10, 0, 0))
    picture = renderer.draw(Moment.of([far_id]), [view()])[0]
    assert (picture.tag[picture.object_id == 21] == Tag.CAR).all()
    assert (picture.object_id == 21).sum() > 500


def test_a_kind_without_a_shape_is_refused_by_name():
    odd = thing(ObjectKind.BENCH, (0, 0, 0), (1, 1, 1))
    object.__setattr__(odd, "kind", "zeppelin")
    with pytest.raises(ValueError, match="zeppelin"):
        PandaRenderer(Town("odd", [], [odd]))


def test_what_buildings_hide_is_never_missed(renderer, monkeypatch):
    views = [view(x=x, y=y, yaw=yaw) for x, y, yaw in ((-2, 0, 20), (20, 5, -60), (75, -12, 35), (40, 18, 150))]
    culled = renderer.draw(Moment.of(traffic()), views)
    monkeypatch.setattr(occlusion.Screen, "hides", lambda self, centres, radii, tops: np.zeros(len(centres), bool))
    all_seeing = PandaRenderer(street())
    for with_culling, without in zip(culled, all_seeing.draw(Moment.of(traffic()), views), strict=True):
        differing = (with_culling.tag != without.tag) | (with_culling.object_id != without.object_id)
        assert differing.sum() <= 10
    all_seeing.close()


def blocked(eye: np.ndarray, points: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(points, boxes): which straight lines from the eye to the points meet which upright boxes, seen from above."""
    along = points[:, None] - eye
    first, second = (low - eye) / along, (high - eye) / along
    enters, leaves = np.minimum(first, second).max(axis=2), np.maximum(first, second).min(axis=2)
    meets: np.ndarray = (enters <= leaves) & (enters > 0) & (enters < 1)
    return meets


def test_what_is_hidden_from_a_place_is_hidden_from_everywhere_in_it():
    random = np.random.default_rng(3)
    middles, sizes = random.uniform(-80, 80, (30, 2)), random.uniform((2, 2, 3), (30, 30, 20), (30, 3))
    low, high = middles - sizes[:, :2] / 2, middles + sizes[:, :2] / 2
    occluders = occlusion.Occluders(
        [
            thing(ObjectKind.BUILDING, (x, y, 0), (length, width, height))
            for (x, y), (length, width, height) in zip(middles, sizes, strict=True)
        ]
    )
    centres = np.column_stack([random.uniform(-120, 120, (300, 2)), np.ones(300)])
    radii, tops = random.uniform(0.1, 4, 300), random.uniform(1, 12, 300)
    turns = np.linspace(0, 2 * np.pi, 8)
    found = 0
    for _ in range(40):
        place, height = random.uniform(-60, 60, 2), random.uniform(1, 4)
        hidden = np.flatnonzero(occluders.seen_from(place[0], place[1], height, 2.5).hides(centres, radii, tops))
        found += len(hidden)
        for angle in random.uniform(0, 2 * np.pi, 6):
            eye = place + 2.499 * np.array([np.cos(angle), np.sin(angle)])
            for turn in turns:
                rim = centres[hidden, :2] + radii[hidden, None] * np.array([np.cos(turn), np.sin(turn)])
                tall = (sizes[:, 2] > height) & (sizes[:, 2] >= tops[hidden, None])
                assert (blocked(eye, rim, low, high) & tall).any(axis=1).all()
    assert found > 500
