"""Things are where the pinhole formula says, and as far away."""

import numpy as np
import pytest

from carla_bridge.simulator.catalogue.kinds import ObjectKind, SurfaceKind
from carla_bridge.simulator.catalogue.vehicle_models import vehicle_models
from carla_bridge.simulator.rendering.camera import pinhole, rotations
from carla_bridge.simulator.rendering.renderer import PandaRenderer
from carla_bridge.simulator.scene import CameraView, Moment, MovingObject, Pose, Town
from tests.support.renderer_scene import WALKER, rectangle, thing, vehicle, view


@pytest.fixture(scope="module")
def renderer():
    plain = Town(
        "plain",
        [rectangle(SurfaceKind.CARRIAGEWAY, -200, -200, 200, 200)],
        [thing(ObjectKind.BUILDING, (60, 0, 0), (20, 40, 12))],
    )
    made = PandaRenderer(plain)
    yield made
    made.close()


def corners(actor: MovingObject) -> np.ndarray:
    """(8, 3) corners of the actor's bounding box in the world."""
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (0, 2)])
    pose = actor.pose
    axes = rotations(np.array([[pose.pitch, pose.yaw, pose.roll]]))[0]
    place: np.ndarray = np.array([pose.x, pose.y, pose.z]) + (signs * np.array(actor.extent)) @ axes.T
    return place


def project(camera_view: CameraView, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CARLA's own recipe: K [right, -up, forward]; pixels (n, 2) and depth (n,)."""
    camera = pinhole(camera_view)
    forward, right, up = ((points - camera.position) @ camera.axes).T
    focal = camera_view.width / (2 * np.tan(np.radians(camera_view.fov) / 2))
    across, down = focal * right / forward, focal * up / forward
    return np.stack([camera_view.width / 2 + across, camera_view.height / 2 - down], axis=1), forward


def bounds(mask: np.ndarray) -> np.ndarray:
    rows, columns = np.nonzero(mask)
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])


CAMERAS = [
    view(x=0, y=0, z=1.6),
    view(x=0, y=0, z=3.0, pitch=-12, yaw=8),
    view(x=1, y=-2, z=2.0, pitch=6, yaw=-10, roll=15),
    CameraView(Pose(-4, 1, 2.4, pitch=-3), 800, 600, 60.0),
    CameraView(Pose(0, 0, 2.0), 333, 97, 110.0),
]


@pytest.mark.parametrize("camera", CAMERAS)
def test_projected_boxes_enclose_masks_and_are_close(renderer, camera):
    for number, model in enumerate(vehicle_models()):
        pose = Pose(13 + number % 3, number % 5 - 2.0, 0, yaw=47.0 * number)
        actor = MovingObject(9, model.blueprint, pose, model.extent, int(model.tag), (200, 60, 60))
        picture = renderer.draw(Moment.of([actor]), [camera])[0]
        pixels, depth = project(camera, corners(actor))
        box = np.concatenate([pixels.min(axis=0), pixels.max(axis=0)])
        limits = np.array([camera.width, camera.height, camera.width, camera.height])
        if (box[:2] < 1).any() or (box[2:] > limits[2:] - 1).any():
            continue
        mask = picture.object_id == 9
        found = bounds(mask)
        outside = np.maximum(box - found, 0)[:2].max(), np.maximum(found - box, 0)[2:].max()
        assert max(outside) <= 1.5, (model.blueprint, box, found)
        size = np.array([box[2] - box[0], box[3] - box[1]])
        slack = (0.2 if model.wheels == 4 else 0.4) + (0.15 if camera.pose.roll else 0.0)
        assert (np.abs(found - box).reshape(2, 2) <= 1.5 + slack * size).all(), (model.blueprint, box, found)
        assert depth.min() - 0.2 <= picture.depth[mask].min()
        assert picture.depth[mask].max() <= depth.max() + 0.2


def test_walkers_stay_in_their_box_at_every_step(renderer):
    camera = view(x=0, y=0, z=1.5)
    for step in range(12):
        walker = MovingObject(5, "walker.pedestrian.0007", Pose(5, 0, 0, yaw=70), WALKER, 12, gait=step * np.pi / 6)
        mask = renderer.draw(Moment.of([walker]), [camera])[0].object_id == 5
        pixels, _ = project(camera, corners(walker))
        found, slack = bounds(mask), 1.5
        assert (found[:2] >= pixels.min(axis=0) - slack).all()
        assert (found[2:] <= pixels.max(axis=0) + slack).all()
        assert found[3] - found[1] > 0.9 * np.ptp(pixels[:, 1])


def test_a_walkers_legs_move(renderer):
    masks = []
    for gait in (0.0, np.pi / 2):
        walker = MovingObject(5, "walker.pedestrian.0007", Pose(5, 0, 0, yaw=90), WALKER, 12, gait=gait)
        masks.append(renderer.draw(Moment.of([walker]), [view(x=0, y=0, z=1.5)])[0].object_id == 5)
    assert (masks[0] != masks[1]).sum() > 100


@pytest.mark.parametrize("camera", CAMERAS)
def test_ground_depth_is_the_rays(renderer, camera):
    picture = renderer.draw(Moment(), [camera])[0]
    pose = camera.pose
    forward, right, up = rotations(np.array([[pose.pitch, pose.yaw, pose.roll]]))[0].T
    focal = camera.width / (2 * np.tan(np.radians(camera.fov) / 2))
    rows, columns = np.nonzero(picture.tag == 1)
    ray = forward + np.outer((columns + 0.5 - camera.width / 2) / focal, right)
    ray -= np.outer((rows + 0.5 - camera.height / 2) / focal, up)
    expected = -pose.z / ray[:, 2]
    near = (expected > 0) & (expected < 60)
    assert near.sum() > 1000
    np.testing.assert_allclose(picture.depth[rows, columns][near], expected[near], rtol=1e-3)


def test_depth_is_measured_along_the_axis_not_the_ray(renderer):
    picture = renderer.draw(Moment(), [view(x=10, y=0, z=3)])[0]
    wall = picture.tag == 3
    assert wall.sum() > 2000
    np.testing.assert_allclose(picture.depth[wall], 40.0, atol=0.15)
    assert (picture.depth[picture.tag == 11] == 1000).all()


def test_depth_of_a_vehicle_is_that_of_its_nearest_face(renderer):
    truck = vehicle(4, "european_hgv", Pose(20, 0, 0, yaw=180))
    picture = renderer.draw(Moment.of([truck]), [view(x=0, y=0, z=1.5)])[0]
    face = picture.depth[picture.object_id == 4]
    front = 20 - truck.extent[0]
    assert abs(np.median(face) - front) < 0.3
    assert face.min() > front - 0.1


def test_the_nearer_of_two_things_hides_the_farther(renderer):
    near, far = vehicle(1, "tesla.model3", Pose(9, 0, 0)), vehicle(2, "audi.a2", Pose(18, 0, 0))
    hidden = renderer.draw(Moment.of([far, near]), [view(x=0, y=0, z=1.0)])[0]
    alone = renderer.draw(Moment.of([far]), [view(x=0, y=0, z=1.0)])[0]
    assert (alone.object_id == 2).sum() > 300
    assert (hidden.object_id == 2).sum() < 0.2 * (alone.object_id == 2).sum()


@pytest.mark.parametrize("size", [(32, 32), (33, 47), (416, 256), (1920, 1080)])
@pytest.mark.parametrize("fov", [20.0, 90.0, 150.0])
def test_any_size_and_field_of_view(renderer, size, fov):
    width, height = size
    car = vehicle(3, "audi.a2", Pose(12, 0, 0, yaw=180))
    picture = renderer.draw(Moment.of([car]), [CameraView(Pose(0, 0, 1.2), width, height, fov)])[0]
    assert picture.bgra.shape == (height, width, 4)
    assert picture.bgra.dtype == np.uint8
    assert (picture.bgra[..., 3] == 255).all()
    for image, kind in ((picture.tag, np.uint8), (picture.object_id, np.uint16), (picture.depth, np.float32)):
        assert image.shape == (height, width)
        assert image.dtype == kind
    focal = width / (2 * np.tan(np.radians(fov) / 2))
    expected = min(focal * 2 * car.extent[1] / (12 - car.extent[0]), width)
    if expected > 3:
        columns = np.flatnonzero((picture.object_id == 3).any(axis=0))
        assert abs(len(columns) - expected) <= 2 + 0.1 * expected
