"""Panda3D's software renderer, off-screen: buffers, the projection, and pixels with their depth.

The engine needs neither an X server nor a GPU. Its habits, and what is done about them here:

* Vertices snap to whole pixels by truncation of (ndc + 1) * (size - 1/2) / 2. The projection matrix undoes that
  scaling, so that a point lands in exactly the pixel that the pinhole formula names.
* There is no antialiasing: every picture is drawn at twice its width. Twice its height as well would be smoother still
  and take a third longer, for a picture that looks the same to all but a close look.
* Outside Panda3D's own application nothing collects unused states, so they are released at once.
* Depth cannot be bound to a texture. The debugging switch `td-show-zbuffer` makes the engine overwrite the frame
  with its depth *after* the colours have been copied out. A second, empty frame without clearing then copies that
  depth to the same memory, so that one pass yields both (a screenshot would do too, but takes fresh memory each time).
"""

from collections import OrderedDict
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from panda3d.core import (
    Camera,
    ConfigVariableBool,
    DisplayRegion,
    FrameBufferProperties,
    GeomNode,
    GraphicsEngine,
    GraphicsOutput,
    GraphicsPipe,
    GraphicsPipeSelection,
    LMatrix4f,
    MatrixLens,
    NodePath,
    Texture,
    TransformState,
    WindowProperties,
    load_prc_file_data,
)

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.geoms import geom
from carla_bridge.simulator.rendering.mesh import box

ACROSS = 2
"""Columns drawn for each of the picture's."""
NEAR, FAR = 0.3, 3000.0
_KEPT_BUFFERS = 4
_DEPTH_STEPS = 2**20

_SETTINGS = """
load-display p3tinydisplay
aux-display
audio-library-name null
texture-quality-level best
transform-cache 0
garbage-collect-states 0
notify-level-display error
"""


@dataclass(frozen=True)
class RawFrame:
    """What the engine drew, at the picture's size, top row first."""

    colours: NDArray[np.uint8]
    """(h, w, 4) means of two adjacent pixels; their alpha means nothing."""
    codes: NDArray[np.uint8]
    """(h, w) alpha of the right one of them, because identities cannot be averaged."""
    steps: NDArray[np.float32]
    """(h, w) depth of the same pixel in the engine's own scale: larger is nearer, 0 is where nothing wrote depth."""


@dataclass
class _Buffer:
    output: GraphicsOutput
    region: DisplayRegion
    pixels: Texture


class Engine:
    """Owns the off-screen buffers and draws the scene below `root` as seen from a pinhole camera."""

    def __init__(self) -> None:
        load_prc_file_data("simulator renderer", _SETTINGS)
        self._pipe = GraphicsPipeSelection.get_global_ptr().make_pipe("TinyOffscreenGraphicsPipe")
        if self._pipe is None:
            raise RuntimeError(
                "Panda3D's software renderer p3tinydisplay cannot be loaded; "
                "install the panda3d wheel of PyPI, which carries it."
            )
        self._engine = GraphicsEngine(self._pipe)
        self._show_depth = ConfigVariableBool("td-show-zbuffer")
        self.root = NodePath("world")
        self._camera = Camera("camera")
        self._lens = MatrixLens()
        self._camera.set_lens(self._lens)
        self._camera_path = self.root.attach_new_node(self._camera)
        self._buffers: OrderedDict[tuple[int, int], _Buffer] = OrderedDict()
        self._host: GraphicsOutput | None = None
        self._check_depth()

    def render(self, camera: Pinhole, background: tuple[float, float, float]) -> RawFrame:
        """Draw one frame; `background` is where nothing is, as red, green, blue in 0..1."""
        buffer = self._buffer(ACROSS * camera.width, camera.height)
        buffer.output.set_clear_color((*background, (Tag.SKY + 0.5) / 256))
        self._lens.set_user_mat(_projection(camera))
        self._camera.set_transform(transform(camera.axes, camera.position))
        buffer.output.set_active(True)
        bgra = self._copied(buffer, drawing=True)
        colours = cv2.resize(bgra, (camera.width, camera.height), interpolation=cv2.INTER_LINEAR)
        codes = np.ascontiguousarray(bgra[::-1, 1::ACROSS, 3])
        depth = self._copied(buffer, drawing=False).view(np.int32)[..., 0]  # numpy is slow with unsigned ones
        buffer.output.set_active(False)
        return RawFrame(np.asarray(cv2.flip(colours, 0), np.uint8), codes, depth[::-1, 1::ACROSS].astype(np.float32))

    def _copied(self, buffer: _Buffer, drawing: bool) -> NDArray[np.uint8]:
        """The frame after drawing the scene, or as the last frame left it; bottom row first, not to be kept."""
        buffer.region.set_active(drawing)
        buffer.output.set_clear_color_active(drawing)
        buffer.output.set_clear_depth_active(drawing)
        self._show_depth.set_value(drawing)
        self._engine.render_frame()
        size = buffer.output.get_size()
        return np.frombuffer(memoryview(buffer.pixels.get_ram_image()), np.uint8).reshape(size.y, size.x, 4)

    def close(self) -> None:
        """Give every buffer back."""
        self._buffers.clear()
        self._engine.remove_all_windows()
        self.root.remove_node()

    def _check_depth(self) -> None:
        """Depth hangs on a debugging switch that a build of Panda3D may lack: see that it works."""
        wall = GeomNode("wall")
        wall.add_geom(geom(box((5, -50, -50), (6, 50, 50), (255, 255, 255))))
        path = self.root.attach_new_node(wall)
        ahead = Pinhole(8, 8, 4.0, 4.0, np.zeros(3), np.eye(3))
        depth = metres(self.render(ahead, (0.0, 0.0, 0.0)).steps, 0.0)
        path.remove_node()
        if not np.allclose(depth, 5.0, atol=0.1):
            raise RuntimeError(
                "this build of Panda3D does not show its z-buffer (td-show-zbuffer), so there is no depth; "
                "install the panda3d wheel of PyPI."
            )

    def _buffer(self, width: int, height: int) -> _Buffer:
        if (width, height) in self._buffers:
            self._buffers.move_to_end((width, height))
            return self._buffers[width, height]
        if len(self._buffers) == _KEPT_BUFFERS:
            _, oldest = self._buffers.popitem(last=False)
            self._engine.remove_window(oldest.output)
        made = self._open(width, height)
        self._buffers[width, height] = made
        return made

    def _open(self, width: int, height: int) -> _Buffer:
        output = self._make_output(width, height)
        pixels = Texture("pixels")
        output.add_render_texture(pixels, GraphicsOutput.RTM_copy_ram)
        region = output.make_display_region()
        region.set_camera(self._camera_path)
        return _Buffer(output, region, pixels)

    def _make_output(self, width: int, height: int) -> GraphicsOutput:
        """An off-screen buffer; all share one graphics state, hence one copy of every texture."""
        if self._host is None:
            self._host = self._request(16, 16)
            self._host.set_active(False)
        return self._request(width, height, self._host.get_gsg(), self._host)

    def _request(self, width: int, height: int, *shared: object) -> GraphicsOutput:
        wanted = FrameBufferProperties()
        wanted.set_rgba_bits(8, 8, 8, 8)
        wanted.set_depth_bits(24)
        size = WindowProperties.size(width, height)
        output = self._engine.make_output(self._pipe, "buffer", 0, wanted, size, GraphicsPipe.BF_refuse_window, *shared)
        self._engine.open_windows()
        if output is None or not output.is_valid():
            raise RuntimeError(f"the software renderer gave no {width}x{height} buffer; ask for a smaller image.")
        return output


def transform(axes: NDArray[np.float64], position: NDArray[np.float64]) -> TransformState:
    """A pose in the engine's axes (x right, y forward, z up: CARLA's with the first two exchanged)."""
    (a, b, c), (d, e, f), (g, h, i) = axes.tolist()
    x, y, z = position.tolist()
    return TransformState.make_mat(LMatrix4f(e, b, h, 0, d, a, g, 0, f, c, i, 0, y, x, z, 1))


def metres(steps: NDArray[np.float32], nearest: NDArray[np.float32] | float) -> NDArray[np.float32]:
    """Depth along the camera's axis; not beyond 1 / `nearest`, the least that its reciprocal may be."""
    scale = _DEPTH_STEPS * FAR * NEAR / (FAR - NEAR)
    depth = steps + np.float32(scale / FAR)
    np.maximum(depth, np.float32(scale) * np.asarray(nearest, np.float32), out=depth)
    np.divide(np.float32(scale), depth, out=depth)
    return depth


def _projection(camera: Pinhole) -> LMatrix4f:
    """Pixel (u, v) = (middle, height / 2) + focal * (right, -up) / forward, in the engine's way of counting pixels."""
    across, along = camera.width - 0.5 / ACROSS, camera.height - 0.5
    a, b = (FAR + NEAR) / (FAR - NEAR), -2 * FAR * NEAR / (FAR - NEAR)
    # fmt: off
    return LMatrix4f(
        2 * camera.focal / across, 0, 0, 0,
        2 * camera.middle / across - 1, 1 - camera.height / along, a, 1,
        0, 2 * camera.focal / along, 0, 0,
        0, 0, b, 0,
    )
    # fmt: on
