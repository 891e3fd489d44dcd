"""What CARLA's own scripts and smoke tests expect of a server, done by the real client in a separate process."""

import carla
import pytest

from tests.support.carla_client import blueprint, connect, fresh

pytest_plugins = ("tests.support.simulator_servers",)
Light = carla.VehicleLightState


def drive_free(world, name="vehicle.tesla.model3", **attributes):
    """A car on the highway, with nothing ahead of it."""
    place = next(p for p in world.get_map().get_spawn_points() if p.location.y < -480 and abs(p.location.x) < 300)
    return world.spawn_actor(blueprint(world, name, **attributes), place)


def yaw_has_one_range(port):
    """What a spawn point, a vehicle on it, a sensor and its data say of one direction is the same number."""
    client, world = connect(port)
    world = fresh(client)
    places = world.get_map().get_spawn_points()
    assert all(-180 <= place.rotation.yaw <= 180 for place in places)
    west = [place for place in places if abs(place.rotation.yaw) > 179.999][:3]
    turned = [carla.Transform(p.location, carla.Rotation(yaw=p.rotation.yaw + 360)) for p in west]
    assert len(west) == 3
    cars = [world.spawn_actor(blueprint(world, "vehicle.audi.tt"), place) for place in west[:2] + turned[2:]]
    sensors = [world.spawn_actor(blueprint(world, "sensor.other.gnss"), place) for place in turned]
    data: list[carla.SensorData] = []
    sensors[0].listen(data.append)
    cars[1].set_simulate_physics(False)
    for _ in range(3):
        world.tick()
    for actor, place in zip([*cars, *sensors], west * 2, strict=True):
        assert actor.get_transform().rotation.yaw == pytest.approx(place.rotation.yaw, abs=1e-4)
    assert data[-1].transform.rotation.yaw == pytest.approx(west[0].rotation.yaw, abs=1e-4)
    lights = world.get_actors().filter("traffic.*")
    assert all(-180 <= light.get_transform().rotation.yaw <= 180 for light in lights)


def physics_come_back_as_set(port):
    client, world = connect(port)
    world = fresh(client)
    car = drive_free(world)
    other = world.spawn_actor(blueprint(world, "vehicle.yamaha.yzf"), world.get_map().get_spawn_points()[20])
    assert len(other.get_physics_control().wheels) == 4, "CARLA's two-wheelers have four wheels in its physics"
    ahead = car.get_transform().get_forward_vector()
    control = car.get_physics_control()
    control.drag_coefficient, control.mass, control.use_sweep_wheel_collision = 5.0, 4000.0, True
    control.torque_curve = [carla.Vector2D(0, 100), carla.Vector2D(50, 300), carla.Vector2D(900, 200)]
    wheels = control.wheels
    for number, wheel in enumerate(wheels):
        wheel.tire_friction, wheel.long_stiff_value = 1.5 + number, 987.0
    control.wheels = wheels
    car.apply_physics_control(control)
    world.tick()
    again = car.get_physics_control()
    for name in ("drag_coefficient", "mass", "use_sweep_wheel_collision", "max_rpm", "torque_curve", "forward_gears"):
        assert getattr(again, name) == getattr(control, name), name
    assert [w.tire_friction for w in again.wheels] == [1.5, 2.5, 3.5, 4.5]
    assert {w.long_stiff_value for w in again.wheels} == {987.0}
    car.add_impulse(ahead * (3.0 * 4000))
    world.tick()
    assert car.get_velocity().dot(ahead) == pytest.approx(3.0, abs=0.1), "the mass acts"
    front, back = car.get_physics_control().wheels[0].position, car.get_physics_control().wheels[2].position
    assert (front - back).length() > 200, "centimetres, at the vehicle"
    [answer] = client.apply_batch_sync([carla.command.ApplyVehiclePhysicsControl(other.id, control)], True)
    assert not answer.error
    assert other.get_physics_control().mass == 4000.0


def physics_that_cannot_be(port):
    """It is refused and changes nothing; the answer to a batch says so."""
    client, world = connect(port)
    world = fresh(client)
    car = drive_free(world)
    mass = car.get_physics_control().mass
    for name, value, complaint in (("mass", 0.0, "above 0 kg"), ("wheels", car.get_physics_control().wheels[:2], "4")):
        control = car.get_physics_control()
        setattr(control, name, value)
        [answer] = client.apply_batch_sync([carla.command.ApplyVehiclePhysicsControl(car.id, control)], True)
        assert complaint in answer.error
    assert car.get_physics_control().mass == mass


def control_that_does_not_stick(port):
    """With sticky_control off a control holds for one tick, as with CARLA; autopilots are not concerned."""
    client, _ = connect(port)

    def drive(sticky, autopilot=False):
        here = fresh(client)
        car = drive_free(here, sticky_control=sticky)
        car.set_autopilot(autopilot)
        if not autopilot:
            car.apply_control(carla.VehicleControl(throttle=1.0))
        here.tick()
        first = car.get_control().throttle
        for _ in range(20):
            here.tick()
        return first, car.get_control().throttle, car.get_velocity().length()

    first, later, speed = drive("true")
    assert (first, later) == (1.0, 1.0)
    assert speed > 2
    first, later, speed = drive("False")
    assert (first, later) == (1.0, 0.0)
    assert speed < 0.2
    assert drive("false", autopilot=True)[2] > 2


def attributes_of_blueprints(port):
    """Those that CARLA's library documents, with its types; roles and generations that scripts choose by."""
    _, world = connect(port, synchronous=False)
    library = world.get_blueprint_library()
    of_vehicles = {
        "role_name": carla.ActorAttributeType.String,
        "ros_name": carla.ActorAttributeType.String,
        "sticky_control": carla.ActorAttributeType.Bool,
        "terramechanics": carla.ActorAttributeType.Bool,
        "object_type": carla.ActorAttributeType.String,
        "base_type": carla.ActorAttributeType.String,
        "special_type": carla.ActorAttributeType.String,
        "number_of_wheels": carla.ActorAttributeType.Int,
        "generation": carla.ActorAttributeType.Int,
        "has_dynamic_doors": carla.ActorAttributeType.Bool,
        "has_lights": carla.ActorAttributeType.Bool,
    }
    for vehicle in library.filter("vehicle.*"):
        for name, kind in of_vehicles.items():
            assert vehicle.get_attribute(name).type == kind, (vehicle.id, name)
        assert vehicle.has_attribute("driver_id") == (int(vehicle.get_attribute("number_of_wheels")) == 2)
        assert "ego_vehicle" in vehicle.get_attribute("role_name").recommended_values
    for name, generation in (("tesla.cybertruck", 2), ("carlamotors.carlacola", 1), ("ford.ambulance", 2)):
        assert int(library.find(f"vehicle.{name}").get_attribute("generation")) == generation
    assert library.find("vehicle.toyota.prius").get_attribute("special_type").as_str() == "electric"
    assert library.find("sensor.camera.rgb").get_attribute("role_name").as_str() == "front"
    for actor in library:
        assert actor.get_attribute("role_name").is_modifiable
        assert actor.get_attribute("ros_name").as_str() == actor.id


def lights_of_the_traffic_manager(port):
    """generate_traffic.py --car-lights-on --respawn."""
    client, _ = connect(port)
    world = fresh(client)
    manager = client.get_trafficmanager()
    manager.set_respawn_dormant_vehicles(True)
    place = next(p for p in world.get_map().get_spawn_points() if p.location.y > -300)
    car = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), place)
    other = world.spawn_actor(blueprint(world, "vehicle.audi.tt"), world.get_map().get_spawn_points()[9])
    for each in (car, other):
        each.set_autopilot(True)
        each.set_light_state(Light(Light.Interior))
        manager.ignore_lights_percentage(each, 100.0)
    manager.set_route(car, ["Left"])
    manager.update_vehicle_lights(car, True)
    weather = world.get_weather()

    def shown(sun, fog=0.0):
        weather.sun_altitude_angle, weather.fog_density = sun, fog
        world.set_weather(weather)
        for _ in range(3):
            world.tick()
        return car.get_light_state()

    running = Light.Position | Light.LowBeam
    assert shown(60.0) & (running | Light.Fog | Light.Interior) == Light.Interior
    assert shown(-10.0) & (running | Light.Fog) == running
    assert shown(60.0, fog=50.0) & (running | Light.Fog) == running | Light.Fog
    assert shown(60.0) & running == 0
    assert other.get_light_state() == Light.Interior, "nobody asked for its lights"
    for _ in range(1200):
        world.tick()
        if car.get_light_state() & Light.LeftBlinker:
            break
    else:
        pytest.fail("the car turned left without a signal")
    assert not car.get_light_state() & Light.RightBlinker
    manager.update_vehicle_lights(car, False)
    kept = car.get_light_state()
    assert shown(-10.0) == kept


SCENES = [
    yaw_has_one_range,
    physics_come_back_as_set,
    physics_that_cannot_be,
    control_that_does_not_stick,
    attributes_of_blueprints,
    lights_of_the_traffic_manager,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_real_client(scene, blank_server, isolated):
    isolated(scene, blank_server.port)
