"""The stream that a body stands in: conditions and axes.

Conventions. 3D: flow along `flow`, lift along `up`; the axes default to +x and +z. 2D: the x-y plane with up = +y,
and the angle of attack turns the stream: U = (cos alpha, sin alpha) U_inf. Re = speed * length / viscosity.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError

DENSITY = 1.225  # kg/m3, air at sea level
VISCOSITY = 1.5e-5  # m2/s, kinematic

_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class Conditions:
    """Free stream and reference length of one case."""

    speed: float  # m/s
    length: float  # m: the body's length along the stream, or the chord
    alpha: float = 0.0  # degrees, 2D
    density: float = DENSITY  # kg/m3
    viscosity: float = VISCOSITY  # m2/s
    ground: bool = False  # whether the body stands over a moving ground at height 0

    def __post_init__(self) -> None:
        for name in ("speed", "length", "density", "viscosity"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                along = "a body has a length along the stream: see --flow"
                remedy = along if name == "length" else f"give --{name} above 0"
                raise InputError(f"{name} must be a positive number", seen=value, remedy=remedy)
        if not math.isfinite(self.alpha):
            raise InputError("alpha must be a number of degrees", seen=self.alpha, remedy="give --alpha 4, say")

    @property
    def reynolds(self) -> float:
        return self.speed * self.length / self.viscosity

    @property
    def dynamic_pressure(self) -> float:
        """q = rho U^2 / 2, Pa."""
        return 0.5 * self.density * self.speed**2

    def direction(self, dimensions: int) -> NDArray[np.float64]:
        """Unit vector of the stream, (dimensions,), in the model's frame."""
        if dimensions == 2:
            angle = math.radians(self.alpha)
            return np.array([math.cos(angle), math.sin(angle)])
        return np.array([1.0, 0.0, 0.0])


@dataclass(frozen=True)
class FlowAxes:
    """Orthonormal wind axes: drag along `flow`, lift along `up`, side force along `side` = up x flow."""

    flow: NDArray[np.float64]  # (3,)
    up: NDArray[np.float64]  # (3,)

    @classmethod
    def parse(cls, flow: str = "+x", up: str = "+z") -> "FlowAxes":
        """From options such as `--flow +z --up +y`."""
        flow_axis, up_axis = _axis(flow, "--flow"), _axis(up, "--up")
        if abs(flow_axis @ up_axis) > 1e-9:
            raise InputError(
                "flow and up must be perpendicular",
                seen=f"--flow {flow} --up {up}",
                remedy="name two different axes, for example --flow +x --up +z",
            )
        return cls(flow_axis, up_axis)

    @classmethod
    def two_dimensional(cls, alpha: float) -> "FlowAxes":
        """Wind axes of an airfoil in the x-y plane at `alpha` degrees."""
        angle = math.radians(alpha)
        c, s = math.cos(angle), math.sin(angle)
        return cls(np.array([c, s, 0.0]), np.array([-s, c, 0.0]))

    @property
    def side(self) -> NDArray[np.float64]:
        return np.cross(self.up, self.flow)

    @property
    def to_model(self) -> NDArray[np.float64]:
        """Rotation (3, 3) from the user's axes to the model's (flow +x, side +y, up +z): x_model = to_model @ x."""
        return np.stack([self.flow, self.side, self.up])


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _axis(text: str, option: str) -> NDArray[np.float64]:
    sign, name = (text[0], text[1:]) if text[:1] in "+-" and text else ("+", text)
    if name.lower() not in _AXES:
        raise InputError(f"{option} takes an axis", seen=text or "nothing", remedy=f"give {option} +x, -x, +y, ...")
    return np.array(_AXES[name.lower()]) * (-1.0 if sign == "-" else 1.0)


@dataclass(frozen=True)
class StreamOptions:
    """What the user said about the stream and the axes; None where nothing was said."""

    speed: float | None = None  # m/s
    alpha: float | None = None  # degrees
    reynolds: float | None = None
    density: float | None = None  # kg/m3
    viscosity: float | None = None  # m2/s
    flow: str = "+x"
    up: str = "+z"
    ground: str = "auto"  # auto | none | height in the file's units
    units: str | None = None  # m, cm, mm, in, ft
    symmetry: str | None = None  # x, y, z: the file holds half a body on this plane

    def __post_init__(self) -> None:
        """Refuse what no body could stand in, before any is read."""
        for name in ("speed", "reynolds", "density", "viscosity"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                said = f"--{name} {value:g}"
                raise InputError(f"{name} must be a positive number", seen=said, remedy=f"give --{name} above 0")
        if self.alpha is not None and not math.isfinite(self.alpha):
            said = f"--alpha {self.alpha:g}"
            raise InputError("alpha must be a number of degrees", seen=said, remedy="give --alpha 4, say")
        FlowAxes.parse(self.flow, self.up)
        if self.ground not in ("auto", "none") and not _is_number(self.ground):
            remedy = "give --ground auto, --ground none or a height"
            raise InputError("the ground is not a height", seen=f"--ground {self.ground}", remedy=remedy)
        if self.symmetry is not None and self.symmetry not in _AXES:
            remedy = "give --symmetry y"
            raise InputError("a body is doubled across a plane", seen=f"--symmetry {self.symmetry}", remedy=remedy)

    def conditions(self, length: float, usual: Conditions) -> Conditions:
        """The stream around a body of `length` metres; what was left open is taken from `usual`.

        Speed and Reynolds number settle each other; both are accepted only where they agree within 1 %.
        """
        viscosity = usual.viscosity if self.viscosity is None else self.viscosity
        speed = usual.speed if self.speed is None else self.speed
        if self.reynolds is not None:
            from_reynolds = self.reynolds * viscosity / length
            if self.speed is not None and abs(from_reynolds / self.speed - 1) > 0.01:
                raise InputError(
                    "speed and Reynolds number disagree",
                    seen=f"--speed {self.speed:g} and --reynolds {self.reynolds:g} at length {length:.4g} m",
                    remedy=f"leave one out; this Reynolds number means {from_reynolds:.4g} m/s",
                )
            speed = from_reynolds
        return Conditions(
            speed=speed,
            length=length,
            alpha=usual.alpha if self.alpha is None else self.alpha,
            density=usual.density if self.density is None else self.density,
            viscosity=viscosity,
            ground=usual.ground and self.ground != "none",
        )
