"""Navier-Stokes (FNO): vorticity of decaying turbulence on a 64 x 64 torus, 1,000 + 200 of 1,200 samples of 20 frames.

`NavierStokes_V1e-5_N1200_T20.mat`: `u` (1200, 64, 64, 20). Cases: grid (64, 64), feature `frames` (n, 10), the first
ten frames, and field `frames` (n, 10), the ten to be predicted.
"""

from pathlib import Path

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays

VERSION = 1
FILES = ("NavierStokes_V1e-5_N1200_T20.mat",)
GIVEN = 10


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES)


def batches(source: Path, options: Options) -> list[Batch]:
    (path,) = files = arrays.find(source, *FILES)
    count = arrays.expect(path, "u", 4, axis_3=2 * GIVEN)[0]
    return arrays.batches_of("navier-stokes", files, arrays.published(count, 1000, 200))


def read(batch: Batch, name: str, options: Options) -> Case:
    u = arrays.sample(batch, name, batch.files[0], "u")
    grid = u.shape[:2]
    frames = u.reshape(grid[0] * grid[1], -1)
    points = arrays.unit_grid(*grid)
    return arrays.structured(name, grid, points, {"frames": frames[:, GIVEN:]}, frames=frames[:, :GIVEN])


splits = arrays.splits_by_name
