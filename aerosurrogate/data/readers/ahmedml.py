"""AhmedML: 500 variants of the Ahmed body, hybrid RANS-LES on about 20 million cells.

Published at huggingface.co/datasets/neashton/ahmedml (files and names: its README; set-up: arXiv 2407.20801). Metres;
flow +x, up +z, ground at z = 0. OpenFOAM's kinematic values at a free stream of 1 m/s, the Reynolds number being set
by the viscosity, 3.75e-7 m2/s: `pMean` is p/rho in m2/s2, for which Cp = 2 p, and `wallShearStressMean` is that of the
wall on the fluid, per density; both on the skin's faces, which look into the body. `force_mom_N.csv` (cd, cl) refers
to 0.112 m2 throughout, `force_mom_varref_N.csv` to each geometry's own frontal area.
"""

from aerosurrogate.data.readers.caeml import PublishedRuns

VERSION = 1
RUNS = PublishedRuns(
    geometry="ahmed",
    boundary=".vtp",
    speed=1.0,
    viscosity=3.75e-7,
    skin={"p": "pMean", "wallShearStress": "wallShearStressMean"},
    air={"p": "pMean", "U": "UMean", "nut": "nutMean"},
    area=0.112,
)
recognises, batches, read, splits = RUNS.recognises, RUNS.batches, RUNS.read, RUNS.splits
