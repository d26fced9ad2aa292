"""Case: one geometry and its solution, in SI units, validated when it is made."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import forces
from aerosurrogate.conditions import Conditions, FlowAxes
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import potential
from aerosurrogate.mesh.potential import PotentialFlow

Array = NDArray[np.float32]
Where = Literal["all", "surface", "volume"]


@dataclass(frozen=True)
class FieldSpec:
    """What a named field means: its unit, where it is defined, and whether it turns with the axes."""

    unit: str
    where: Where = "all"
    vector: bool = False


FIELD_SPECS = {
    "p": FieldSpec("Pa"),  # static gauge pressure
    "U": FieldSpec("m/s", vector=True),
    "wallShearStress": FieldSpec("Pa", where="surface", vector=True),  # of the fluid on the body
    "nut": FieldSpec("m2/s"),  # turbulent viscosity
}


def field_spec(name: str) -> FieldSpec:
    """The meaning of a field; names that are not aerodynamic are plain numbers defined everywhere."""
    return FIELD_SPECS.get(name, FieldSpec("-"))


@dataclass(frozen=True)
class Case:
    """One body (or domain) and its solution at n points in d dimensions.

    Forces follow from the skin alone: F = sum(-p n A) + sum(tau A), whether the skin's points are face centres
    or vertices with lumped areas.
    """

    name: str
    points: Array  # (n, d) m
    surface: NDArray[np.bool_]  # (n,) True on the body's skin
    fields: dict[str, Array]  # name -> (n, c)
    normals: Array | None = None  # (n, d) outward on the skin; off it the unit vector away from the nearest skin point
    areas: Array | None = None  # (n,) m2 (2D: m of contour x 1 m) on the skin, 0 off it
    distance: Array | None = None  # (n,) m to the skin
    volumes: Array | None = None  # (n,) m3 (2D: m2 x 1 m) of the solver's cell, 0 on the skin
    cells: NDArray[np.int32] | None = None  # (m, k) skin lines or triangles among the points
    features: dict[str, Array] = field(default_factory=dict)  # other inputs, name -> (n, c)
    conditions: Conditions | None = None
    reference: dict[str, float] = field(default_factory=dict)  # true cd, cl, cm, area, ...
    grid: tuple[int, ...] | None = None  # shape of a structured mesh, row-major
    symmetry: Literal["y"] | None = None  # only y >= 0 is held; `whole` mirrors it
    tags: dict[str, str] = field(default_factory=dict)  # kind of body, NACA digits, ...
    outline: PotentialFlow | None = None  # around the whole skin, of which some points are held here

    def __post_init__(self) -> None:
        n, d = self.points.shape if self.points.ndim == 2 else (0, 0)
        if n == 0 or d not in (1, 2, 3):
            self._reject("points must be (n, 2) or (n, 3) with n > 0", self.points.shape)
        for name, array in self.arrays().items():
            if name != "cells" and len(array) != n:
                self._reject(f"{name} must have one row a point ({n})", array.shape)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                bad = int((~np.isfinite(array)).reshape(len(array), -1).any(axis=1).sum())
                self._reject(f"{name} has values that are not finite", f"{bad} of {len(array)} rows")
        for name, array in (self.fields | self.features).items():
            if array.ndim != 2:
                self._reject(f"{name} must be (n, channels)", array.shape)
            if field_spec(name).vector and name in self.fields and array.shape[1] != d:
                self._reject(f"{name} must have {d} components", array.shape)
        for name in ("areas", "distance", "volumes"):
            array = getattr(self, name)
            if array is not None and (array.ndim != 1 or array.min() < 0):
                self._reject(f"{name} must be one number a point, none negative", array.shape)
        if self.surface.dtype != np.bool_:
            self._reject("surface must be True or False for each point", self.surface.dtype)
        if self.normals is not None and self.normals.shape != (n, d):
            self._reject(f"normals must be ({n}, {d})", self.normals.shape)
        if self.grid is not None and math.prod(self.grid) != n:
            self._reject(f"grid must hold {n} points", self.grid)
        if self.cells is not None and self.cells.size and not 0 <= self.cells.min() <= self.cells.max() < n:
            self._reject(f"cells must index the {n} points", (int(self.cells.min()), int(self.cells.max())))
        if self.symmetry is not None and d != 3:
            self._reject("symmetry needs 3 dimensions", d)

    def _reject(self, what: str, seen: object) -> None:
        raise InputError(f"case {self.name}: {what}", seen=seen, remedy="check the source of this case")

    @property
    def dimensions(self) -> int:
        return self.points.shape[1]

    @property
    def silhouette(self) -> float | None:
        """Area of the body's shadow along the flow, m2 (2D: chord x 1 m), if known."""
        if self.dimensions == 2:
            return None if self.conditions is None else self.conditions.length
        return self.reference.get("silhouette", self.reference.get("area"))

    def coefficients(self, fields: dict[str, Array] | None = None) -> forces.Coefficients | None:
        """What pressure and shear on the skin add up to: the case's own, or other `fields` (n, c) on its points.

        Over `reference["area"]`, in 2D the chord x 1 m; None where area, skin or pressure are not known.
        """
        stream, found = self.conditions, self.fields if fields is None else fields
        area = self.reference.get("area", stream.length if stream and self.dimensions == 2 else None)
        if stream is None or area is None or self.normals is None or self.areas is None or "p" not in found:
            return None
        skin, flat = self.surface, self.dimensions == 2
        shear = found["wallShearStress"][skin] if "wallShearStress" in found else None
        areas = self.areas[skin] * (1 if self.symmetry is None else 2)
        about = np.array([0.25 * stream.length, 0.0]) if flat else np.zeros(3)
        total = forces.integrate(self.points[skin], self.normals[skin], areas, found["p"][skin, 0], shear, about)
        axes = FlowAxes.two_dimensional(stream.alpha) if flat else FlowAxes.parse()
        return forces.coefficients(total, axes, stream, area)

    def with_coefficients(self) -> "Case":
        """The case with the coefficients that its own skin gives, beside what its reference holds already.

        Where the shear is not known they are the pressure's alone, and there is no `cd_friction`.
        """
        found = self.coefficients()
        if found is None:
            return self
        ours = {key: getattr(found, key) for key in ("cd", "cl", "cm", "cd_pressure", "cd_friction")}
        ours |= {"area": self.conditions.length} if self.dimensions == 2 and self.conditions else {}
        return replace(self, reference={k: v for k, v in ours.items() if v is not None} | self.reference)

    @property
    def potential_flow(self) -> PotentialFlow | None:
        """That around the body; None where its skin is not known."""
        if self.outline is not None or self.conditions is None or self.normals is None or self.areas is None:
            return self.outline
        skin = self.surface
        skinned = self.points[skin], self.normals[skin], self.areas[skin]
        return potential.of_skin(*skinned, ground=self.conditions.ground, half=self.symmetry is not None)

    def arrays(self) -> dict[str, NDArray]:
        """Every array of the case by its name in the store: `fields/p`, `features/a`, `points`, ..."""
        plain = {
            name: getattr(self, name)
            for name in ("points", "surface", "normals", "areas", "distance", "volumes", "cells")
        }
        named = {f"fields/{k}": v for k, v in self.fields.items()}
        named |= {f"features/{k}": v for k, v in self.features.items()}
        return {k: v for k, v in (plain | named).items() if v is not None}

    def take(self, rows: NDArray[np.integer]) -> "Case":
        """The case at some of its points, in the order given; connectivity and grid do not survive."""

        def pick(array: NDArray | None) -> NDArray | None:
            return None if array is None else array[rows]

        return replace(
            self,
            points=self.points[rows],
            surface=self.surface[rows],
            fields={k: v[rows] for k, v in self.fields.items()},
            features={k: v[rows] for k, v in self.features.items()},
            normals=pick(self.normals),
            areas=pick(self.areas),
            distance=pick(self.distance),
            volumes=pick(self.volumes),
            cells=None,
            grid=None,
            outline=self.potential_flow,
        )

    def lives_at(self, name: str, rows: NDArray[np.bool_]) -> bool:
        """Whether a field is more than nothing at some of the points (n,): velocity and turbulent viscosity vanish on
        the skin, where an error relative to them, or a picture, would show round-off."""
        sizes = np.abs(self.fields[name])
        return bool(rows.any()) and bool(sizes[rows].max() > 1e-3 * sizes.max())

    def whole(self) -> "Case":
        """The case with its mirror image added where only the half y >= 0 is held."""
        if self.symmetry is None:
            return self
        flip = np.array([1, -1, 1], np.float32)

        def twice(array: NDArray, *, vector: bool = False) -> NDArray:
            return np.concatenate([array, array * flip if vector else array])

        def maybe_twice(array: NDArray | None, *, vector: bool = False) -> NDArray | None:
            return None if array is None else twice(array, vector=vector)

        n = len(self.points)
        cells = self.cells
        if cells is not None:  # a mirrored face turns inside out unless its winding is reversed
            cells = np.concatenate([cells, cells[:, ::-1] + n])
        return replace(
            self,
            points=np.concatenate([self.points, self.points * flip]),
            surface=np.concatenate([self.surface, self.surface]),
            fields={k: twice(v, vector=field_spec(k).vector) for k, v in self.fields.items()},
            features={k: twice(v) for k, v in self.features.items()},
            normals=maybe_twice(self.normals, vector=True),
            areas=maybe_twice(self.areas),
            distance=maybe_twice(self.distance),
            volumes=maybe_twice(self.volumes),
            cells=cells,
            symmetry=None,
        )
