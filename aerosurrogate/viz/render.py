"""Pictures of bodies, without a display.

Colours mean values, so no lamp changes them: what gives a body its form are its edges and its outline. VTK draws
off-screen in a process of its own, because where no OpenGL works VTK may end the process it runs in. Then, and only
then, the triangles are drawn by matplotlib, back to front.
"""

import atexit
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import console
from aerosurrogate.conditions import FlowAxes
from aerosurrogate.viz.skin import edges

Image = NDArray[np.uint8]  # (height, width, 3)
VIEWS = {  # where the eye is, in shares of (flow, side, up)
    "front": (-1.0, -0.85, 0.45),
    "rear": (1.0, -0.85, 0.45),
    "side": (0.0, -1.0, 0.0),
    "top": (0.0, 0.0, 1.0),
    "underbody": (0.0, 0.0, -1.0),
    "head on": (-1.0, 0.0, 0.0),
    "from behind": (1.0, 0.0, 0.0),
}
_LINES = "#30343a"
_MARGIN = 1.04
_VTK_SECONDS = 120.0  # for one picture: the first one compiles shaders


@dataclass(frozen=True)
class Shot:
    """One view of one coloured body."""

    corners: NDArray[np.float32]  # (m, 3, 3) triangles, m
    colours: NDArray[np.uint8]  # (m, 3) of the triangles, or (m, 3, 3) of their corners
    eye: tuple[float, float, float]  # direction from the body to the eye
    up: tuple[float, float, float]
    size: tuple[int, int]  # width, height in pixels

    @classmethod
    def of(cls, corners: NDArray, colours: NDArray, view: str, axes: FlowAxes, size: tuple[int, int]) -> "Shot":
        along, across, height = VIEWS[view]
        eye = along * axes.flow + across * axes.side + height * axes.up
        up = axes.side if view == "top" else -axes.side if view == "underbody" else axes.up
        return cls(np.asarray(corners, np.float32), np.asarray(colours, np.uint8), tuple(eye), tuple(up), size)


def render(shots: Sequence[Shot]) -> list[Image]:
    """Pictures of the shots, in their order."""
    workers = _workers()
    if workers is not None:
        try:
            return list(workers.map(_by_vtk, shots, timeout=_VTK_SECONDS * (1 + len(shots))))
        except (BrokenProcessPool, TimeoutError, RuntimeError, ImportError, OSError) as error:
            console.note(f"no OpenGL here ({type(error).__name__}); pictures are drawn by matplotlib instead")
            _give_up_vtk()
    return [_by_matplotlib(shot) for shot in shots]


_vtk_works = True


def _give_up_vtk() -> None:
    global _vtk_works
    _vtk_works = False


def _workers() -> ProcessPoolExecutor | None:
    return _pool() if _vtk_works else None


@cache
def _pool() -> ProcessPoolExecutor:
    # Not one of parallel.py's: it stays for the next pictures, and begins afresh, without a VTK that others loaded.
    pool = ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"), initializer=_quiet)
    atexit.register(pool.shutdown, wait=False, cancel_futures=True)
    return pool


def _quiet() -> None:
    """VTK writes what it tries on the way to a working OpenGL to stderr, where only our own notes belong."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _camera(shot: Shot) -> tuple[NDArray, NDArray, NDArray, NDArray, float]:
    """Unit vectors right, up and towards the eye; the centre; half the height of a picture that holds the body."""
    towards = np.array(shot.eye) / np.linalg.norm(shot.eye)
    right = np.cross(shot.up, towards)
    right /= np.linalg.norm(right)
    upward = np.cross(towards, right)
    points = shot.corners.reshape(-1, 3)
    across, height = points @ right, points @ upward
    centre = (
        right * (across.min() + across.max()) / 2
        + upward * (height.min() + height.max()) / 2
        + towards * np.mean(points @ towards)
    )
    half = max(np.ptp(height), np.ptp(across) * shot.size[1] / shot.size[0]) / 2 * _MARGIN
    return right, upward, towards, centre, max(float(half), 1e-9)


def _by_vtk(shot: Shot) -> Image:
    import pyvista as pv

    _, upward, towards, centre, half = _camera(shot)
    points = shot.corners.reshape(-1, 3)
    colours = shot.colours if shot.colours.ndim == 3 else np.repeat(shot.colours[:, None], 3, axis=1)
    body = pv.PolyData.from_regular_faces(points, np.arange(len(points)).reshape(-1, 3))
    body.point_data["rgb"] = colours.reshape(-1, 3)
    plotter: Any = pv.Plotter(off_screen=True, window_size=list(shot.size), lighting="none")
    plotter.set_background("white")
    plotter.add_mesh(body, scalars="rgb", rgb=True, lighting=False, show_scalar_bar=False)
    lines = edges(shot.corners, towards)
    if len(lines):
        nearer = lines.reshape(-1, 3) + 0.004 * half * towards  # or the faces beside them would cover them
        ends = np.arange(len(nearer)).reshape(-1, 2)
        drawn = pv.PolyData(nearer, lines=np.insert(ends, 0, 2, axis=1).ravel())
        plotter.add_mesh(drawn, color=_LINES, opacity=0.45, line_width=1.2, lighting=False)
    plotter.enable_anti_aliasing("ssaa")
    plotter.camera.parallel_projection = True
    reach = 4 * float(np.linalg.norm(np.ptp(points, axis=0))) + 1e-6
    plotter.camera_position = [tuple(centre + reach * towards), tuple(centre), tuple(upward)]
    plotter.camera.parallel_scale = half
    plotter.camera.clipping_range = (0.01 * reach, 2 * reach)
    picture = plotter.screenshot(return_img=True)
    plotter.close()
    return np.asarray(picture, dtype=np.uint8)


def _by_matplotlib(shot: Shot) -> Image:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    right, upward, towards, centre, half = _camera(shot)
    corners = shot.corners.astype(float) - centre
    order = np.argsort((corners @ towards).mean(axis=1))
    colours = (shot.colours if shot.colours.ndim == 2 else shot.colours.mean(axis=1)) / 255.0
    flat = np.stack([corners @ right, corners @ upward], axis=-1)  # (m, 3, 2)
    width, height = shot.size
    figure = Figure(figsize=(width / 100, height / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-half * width / height, half * width / height)
    axes.set_ylim(-half, half)
    axes.add_collection(PolyCollection(list(flat[order]), facecolors=colours[order], edgecolors=colours[order], lw=0.3))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
