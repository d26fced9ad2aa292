"""DrivAerML: 500 variants of the DrivAer notchback at 38.889 m/s, hybrid RANS-LES on about 150 million cells.

Published at huggingface.co/datasets/neashton/drivaerml (files and names: its card; set-up: arXiv 2408.11969). Metres;
flow +x, up +z. OpenFOAM's kinematic values: `pMeanTrim` is p/rho in m2/s2, for which Cp = 2 p / 38.889^2, and
`wallShearStressMeanTrim` is that of the wall on the fluid, per density; both on the skin's faces, which look into the
body. `force_mom_N.csv` (Cd, Cl, Clf, Clr, Cs) refers to each geometry's own frontal area, `aRef` of `geo_ref_N.csv`
(lRef, aRef, forcesCoR, ...); `force_mom_constref_N.csv` to 2.17 m2 throughout. The point of reference of the moments,
forcesCoR, lies on the ground. Volumes come cut into two or three parts, arrays inline in base64. Viscosity 1.507e-5
m2/s. Force integrals of published files by others reproduce the published drag with these signs to 0.001 %.
"""

from aerosurrogate.data.readers.caeml import PublishedRuns

VERSION = 1
RUNS = PublishedRuns(
    geometry="drivaer",
    boundary=".vtp",
    speed=38.889,
    viscosity=1.507e-5,
    skin={"p": "pMeanTrim", "wallShearStress": "wallShearStressMeanTrim"},
    air={"p": "pMeanTrim", "U": "UMeanTrim", "nut": "nutMeanTrim"},
)
recognises, batches, read, splits = RUNS.recognises, RUNS.batches, RUNS.read, RUNS.splits
