"""Meshes in the engine's own form."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from panda3d.core import (
    Geom,
    GeomEnums,
    GeomTriangles,
    GeomVertexArrayFormat,
    GeomVertexData,
    GeomVertexFormat,
    InternalName,
    LightAttrib,
    OmniBoundingVolume,
    RenderState,
    ShadeModelAttrib,
    Texture,
    TextureAttrib,
)

from carla_bridge.simulator.rendering.mesh import Mesh, cross

_STREAM = [("point", "4f4"), ("colour", "4f4")]
_STREAM_VERTEX, _PLAIN_VERTEX = np.dtype(_STREAM), np.dtype([*_STREAM, ("normal", "3f4"), ("unused", "f4")])
_TEXTURED_VERTEX = np.dtype([*_STREAM, ("uv", "2f4"), ("unused", "2f4")])
"""The engine reads four numbers at a multiple of 16 bytes as they are, and converts anything else at every use."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A mesh that no lamp shines on, in the engine's form, to be drawn together with others."""

    rows: NDArray[np.float32]
    """One vertex per row: point, colour and, if there is a texture, the coordinates in it."""
    corners: NDArray[np.uint32]

    @property
    def colours(self) -> NDArray[np.float32]:
        """(n, 4) from 0 to 1, to be changed."""
        return self.rows[:, 4:8]


def geom(mesh: Mesh) -> Geom:
    """The mesh, for lamps to shine on, with its triangles ordered so that each faces where its normal points."""
    rows = _vertices(mesh, _PLAIN_VERTEX)
    rows["normal"] = mesh.normals[:, [1, 0, 2]]
    vertices = GeomVertexData("mesh", _format(_PLAIN_VERTEX), Geom.UH_static)
    vertices.unclean_set_num_rows(len(rows))
    vertices.modify_array_handle(0).copy_data_from(rows.tobytes())
    triangles = _outward(mesh)
    faces = GeomTriangles(Geom.UH_static)
    wide = len(rows) > 65535
    faces.set_index_type(GeomEnums.NT_uint32 if wide else GeomEnums.NT_uint16)
    index = faces.modify_vertices()
    index.unclean_set_num_rows(triangles.size)
    index.modify_handle().copy_data_from(triangles.astype(np.uint32 if wide else np.uint16).tobytes())
    made = Geom(vertices)
    made.add_primitive(faces)
    return made


def stream(mesh: Mesh, textured: bool) -> Stream:
    """The mesh in the engine's form."""
    rows = _vertices(mesh, _TEXTURED_VERTEX if textured else _STREAM_VERTEX)
    if textured:
        rows["uv"] = mesh.uv
    return Stream(rows.view(np.float32).reshape(len(rows), -1), _outward(mesh).astype(np.uint32).reshape(-1))


def joined(streams: Sequence[Stream]) -> Geom:
    """Streams of one layout as one geom, to be drawn in their order: the engine takes as long for a geom as for fifty
    vertices. They are known to be in view, so it need not work out their bounds.
    """
    rows = np.concatenate([part.rows for part in streams])
    corners = np.concatenate([part.corners for part in streams])
    counts = np.array([(len(part.rows), len(part.corners)) for part in streams], np.uint32)
    corners += np.repeat(np.cumsum(counts[:, 0], dtype=np.uint32) - counts[:, 0], counts[:, 1])
    layout = _TEXTURED_VERTEX if 4 * rows.shape[1] == _TEXTURED_VERTEX.itemsize else _STREAM_VERTEX
    vertices = GeomVertexData("stream", _format(layout), Geom.UH_stream)
    vertices.unclean_set_num_rows(len(rows))
    vertices.modify_array_handle(0).copy_data_from(rows)
    faces = GeomTriangles(Geom.UH_stream)
    faces.set_index_type(GeomEnums.NT_uint32)
    index = faces.modify_vertices()
    index.unclean_set_num_rows(corners.size)
    index.modify_handle().copy_data_from(corners)
    made = Geom(vertices)
    made.add_primitive(faces)
    made.set_bounds(OmniBoundingVolume())
    return made


def _vertices(mesh: Mesh, layout: np.dtype[np.void]) -> NDArray[np.void]:
    """The points and colours of a mesh in the engine's axes."""
    rows = np.zeros(len(mesh.points), layout)
    rows["point"][:, :3] = mesh.points[:, [1, 0, 2]]
    rows["point"][:, 3] = 1
    rows["colour"] = shares(mesh.colours)
    return rows


def shares(colours: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Colours from 0 to 255 as the engine counts, from 0 to 1."""
    found: NDArray[np.float32] = np.divide(colours, np.float32(255), dtype=np.float32)
    return found


@cache
def _format(layout: np.dtype[np.void]) -> GeomVertexFormat:
    """A layout in the engine's words."""
    columns = GeomVertexArrayFormat()
    columns.add_column(InternalName.get_vertex(), 4, GeomEnums.NT_float32, GeomEnums.C_point)
    columns.add_column(InternalName.get_color(), 4, GeomEnums.NT_float32, GeomEnums.C_color)
    if layout is _PLAIN_VERTEX:
        columns.add_column(InternalName.get_normal(), 3, GeomEnums.NT_float32, GeomEnums.C_normal)
    if layout is _TEXTURED_VERTEX:
        columns.add_column(InternalName.get_texcoord(), 2, GeomEnums.NT_float32, GeomEnums.C_texcoord)
    columns.set_stride(layout.itemsize)
    return GeomVertexFormat.register_format(GeomVertexFormat(columns))


def surface_state(texture: Texture | None, shining: bool, smooth: bool) -> RenderState:
    """How a surface is drawn: with a texture, or in its own light, or plainly; every face in one shade or blended."""
    shading = ShadeModelAttrib.make(ShadeModelAttrib.M_smooth if smooth else ShadeModelAttrib.M_flat)
    if texture is not None:
        return RenderState.make(TextureAttrib.make(texture), shading)
    return RenderState.make(LightAttrib.make_all_off(), shading) if shining else RenderState.make(shading)


def _outward(mesh: Mesh) -> NDArray[np.int32]:
    """The mesh's triangles, in the engine's axes, ordered so that each faces where its normal points."""
    return _facing_outwards(mesh.points[:, [1, 0, 2]], mesh.normals[:, [1, 0, 2]], mesh.triangles)


def _facing_outwards(
    points: NDArray[np.float32], normals: NDArray[np.float32], triangles: NDArray[np.int32]
) -> NDArray[np.int32]:
    corners = points[triangles]
    facing = cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    backwards = (facing * normals[triangles[:, 0]]).sum(axis=1) < 0
    return np.where(backwards[:, None], triangles[:, ::-1], triangles)
