"""WindsorML: 355 variants of the Windsor body at 30 m/s, wall-modelled LES on about 290 million cells.

Published at huggingface.co/datasets/neashton/windsorml (set-up: arXiv 2407.19320). Runs count from 0. Metres; flow +x,
up +y, ground at y = 0. The stream comes 2.5 degrees from the side (the body is yawed to it); drag and lift are along
the file's x and y, as published. The skin is a VTU with coefficients at its points, of the fluid on the body: `cpavg`,
and `cfxavg`, `cfyavg`, `cfzavg`, whose order in the file is x, z, y. The air has `velocityxavg`, ... in its cells. Its
`pressureavg` is left out: the publisher does not say what it is measured against. `force_mom_N.csv` (cd, cl, ...)
refers to 0.112 m2 throughout, `force_mom_varref_N.csv` to each geometry's own frontal area. The viscosity is not among
what is published beside the files; that of air at 15 degrees stands in. Splits are those of `splits/manifest.json`.
"""

from aerosurrogate.conditions import VISCOSITY
from aerosurrogate.data.readers.caeml import PublishedRuns

VERSION = 1
RUNS = PublishedRuns(
    geometry="windsor",
    boundary=".vtu",
    speed=30.0,
    viscosity=VISCOSITY,
    skin={"p": "cpavg", "wallShearStress": ("cfxavg", "cfyavg", "cfzavg")},
    air={"U": ("velocityxavg", "velocityyavg", "velocityzavg")},
    area=0.112,
    coefficients=True,
    up="+y",
)
recognises, batches, read, splits = RUNS.recognises, RUNS.batches, RUNS.read, RUNS.splits
