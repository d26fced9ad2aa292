"""The figures of the paper's tables, to stand beside ours: relative L2 unless said."""

TASKS = ("elasticity", "plasticity", "airfoil", "pipe", "navier-stokes", "darcy")

# Table 2, the rows of which we have a kind of model.
MAIN = {
    "FNO": (None, None, None, None, 0.1556, 0.0108),
    "Galerkin": (0.0240, 0.0120, 0.0118, 0.0098, 0.1401, 0.0084),
    "GNOT": (0.0086, 0.0336, 0.0076, 0.0047, 0.1380, 0.0105),
    "Transolver (paper)": (0.0064, 0.0012, 0.0053, 0.0033, 0.0900, 0.0057),
}

# Table 3, AirfRANS: volume, surface, error of C_L, rho_L.
AIRFRANS = {
    "MLP": (0.0081, 0.0200, 0.2108, 0.9932),
    "GraphSAGE": (0.0087, 0.0184, 0.1476, 0.9964),
    "PointNet": (0.0253, 0.0996, 0.1973, 0.9919),
    "MeshGraphNet": (0.0214, 0.0387, 0.2252, 0.9945),
    "Galerkin": (0.0074, 0.0159, 0.2336, 0.9951),
    "GNOT": (0.0049, 0.0152, 0.1992, 0.9942),
    "Transolver (paper)": (0.0037, 0.0142, 0.1030, 0.9978),
}

# Table 5, AirfRANS beyond the training range: C_L and rho_L at other Reynolds numbers, at other angles.
OOD = {
    "MLP": (0.6205, 0.9578, 0.4128, 0.9572),
    "GraphSAGE": (0.4333, 0.9707, 0.2538, 0.9894),
    "PointNet": (0.3836, 0.9806, 0.4425, 0.9784),
    "MeshGraphNet": (1.7718, 0.7631, 0.6525, 0.8927),
    "Galerkin": (0.4615, 0.9826, 0.3814, 0.9821),
    "GNOT": (0.3268, 0.9865, 0.3497, 0.9868),
    "Transolver (paper)": (0.2996, 0.9896, 0.1500, 0.9950),
}

# Appendix, full ablations: by number of slices, then fixed squares and the multiscale configuration.
SLICES = {
    "1": (0.0148, 0.0140, 0.0084, 0.0087, 0.1511, 0.0386),
    "8": (0.0071, 0.0028, 0.0056, 0.0040, 0.1136, 0.0096),
    "16": (0.0067, 0.0019, 0.0057, 0.0045, 0.0958, 0.0067),
    "32": (0.0067, 0.0015, 0.0067, 0.0042, 0.0900, 0.0063),
    "64": (0.0064, 0.0012, 0.0053, 0.0033, 0.0871, 0.0059),
    "96": (0.0061, 0.0008, 0.0054, 0.0033, 0.0802, 0.0055),
    "128": (0.0058, 0.0009, 0.0049, 0.0034, 0.0783, 0.0054),
    "256": (0.0054, 0.0013, 0.0043, 0.0032, 0.0856, 0.0050),
    "512": (0.0059, 0.0012, 0.0045, 0.0040, 0.0914, 0.0056),
    "1024": (0.0068, 0.0017, 0.0048, 0.0047, 0.1003, 0.0055),
    "half in the later layers": (0.0066, 0.0012, 0.0050, 0.0037, 0.0891, 0.0056),
    "regular squares": (None, 0.0022, 0.0071, 0.0049, 0.1077, 0.0088),
}

# Appendix, resolutions of Darcy: plain transformer, Transolver.
RESOLUTION = {
    "22": (0.02017, 0.02019),
    "41": (0.0103, 0.0089),
    "58": (0.0073, 0.0058),
    "85": (0.0081, 0.0059),
    "103": (None, 0.0057),
    "141": (None, 0.0062),
    "211": (None, 0.0063),
    "411": (None, 0.0060),
}

# Appendix, parameter scalability; only these are given as numbers.
LAYERS = {"8": {"elasticity": 0.0064, "airfoil": 0.0053}, "40": {"elasticity": 0.0047, "airfoil": 0.0037}}

# Appendix, WaterDrop: mean squared error of positions.
LAGRANGIAN = {"graph network": 0.0182, "graph network + Transolver": 0.0069}
