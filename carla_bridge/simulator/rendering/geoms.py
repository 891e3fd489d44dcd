"""Meshes in the engine's own form."""

import numpy as np
from numpy.typing import NDArray
from panda3d.core import (
    Geom,
    GeomEnums,
    GeomTriangles,
    GeomVertexData,
    GeomVertexFormat,
    LightAttrib,
    OmniBoundingVolume,
    RenderState,
    ShadeModelAttrib,
    Texture,
    TextureAttrib,
)

from carla_bridge.simulator.rendering.mesh import Mesh, cross

_VERTEX = np.dtype([("point", "3f4"), ("normal", "3f4"), ("colour", "4u1"), ("uv", "2f4")])
STREAM_VERTEX = np.dtype([("point", "3f4"), ("colour", "4u1")])
_PLAIN_VERTEX = np.dtype([("point", "3f4"), ("normal", "3f4"), ("colour", "4u1")])


def geom(mesh: Mesh, textured: bool = False) -> Geom:
    """The mesh, with its triangles ordered so that each faces where its normal points."""
    layout = _VERTEX if textured else _PLAIN_VERTEX
    rows = np.empty(len(mesh.points), layout)
    rows["point"] = mesh.points[:, [1, 0, 2]]
    rows["normal"] = mesh.normals[:, [1, 0, 2]]
    rows["colour"] = mesh.colours
    if textured:
        rows["uv"] = mesh.uv
    triangles = outward(mesh)
    form = GeomVertexFormat.get_v3n3c4t2() if textured else GeomVertexFormat.get_v3n3c4()
    vertices = GeomVertexData("mesh", form, Geom.UH_static)
    vertices.unclean_set_num_rows(len(rows))
    vertices.modify_array_handle(0).copy_data_from(rows.tobytes())
    faces = GeomTriangles(Geom.UH_static)
    wide = len(rows) > 65535
    faces.set_index_type(GeomEnums.NT_uint32 if wide else GeomEnums.NT_uint16)
    index = faces.modify_vertices()
    index.unclean_set_num_rows(triangles.size)
    index.modify_handle().copy_data_from(triangles.astype(np.uint32 if wide else np.uint16).tobytes())
    made = Geom(vertices)
    made.add_primitive(faces)
    return made


def stream_geom(rows: NDArray[np.float32], index: NDArray[np.uint32]) -> Geom:
    """Unlit triangles for one picture or a few: `STREAM_VERTEX` as rows of four numbers, in the engine's axes.

    They are known to be in view, so the engine need not work out their bounds.
    """
    vertices = GeomVertexData("stream", GeomVertexFormat.get_v3c4(), Geom.UH_stream)
    vertices.unclean_set_num_rows(len(rows))
    vertices.modify_array_handle(0).copy_data_from(rows)
    faces = GeomTriangles(Geom.UH_stream)
    faces.set_index_type(GeomEnums.NT_uint32)
    handle = faces.modify_vertices()
    handle.unclean_set_num_rows(index.size)
    handle.modify_handle().copy_data_from(index)
    made = Geom(vertices)
    made.add_primitive(faces)
    made.set_bounds(OmniBoundingVolume())
    return made


def surface_state(texture: Texture | None, shining: bool, smooth: bool) -> RenderState:
    """How a surface is drawn: with a texture, or in its own light, or plainly; every face in one shade or blended."""
    shading = ShadeModelAttrib.make(ShadeModelAttrib.M_smooth if smooth else ShadeModelAttrib.M_flat)
    if texture is not None:
        return RenderState.make(TextureAttrib.make(texture), shading)
    return RenderState.make(LightAttrib.make_all_off(), shading) if shining else RenderState.make(shading)


def outward(mesh: Mesh) -> NDArray[np.int32]:
    """The mesh's triangles, in the engine's axes, ordered so that each faces where its normal points."""
    return _facing_outwards(mesh.points[:, [1, 0, 2]], mesh.normals[:, [1, 0, 2]], mesh.triangles)


def _facing_outwards(
    points: NDArray[np.float32], normals: NDArray[np.float32], triangles: NDArray[np.int32]
) -> NDArray[np.int32]:
    corners = points[triangles]
    facing = cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    backwards = (facing * normals[triangles[:, 0]]).sum(axis=1) < 0
    return np.where(backwards[:, None], triangles[:, ::-1], triangles)
