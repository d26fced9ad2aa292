"""Other models to stand beside Transolver: the paper's baselines and some that came after it, one short file each.

They are sketches in our own code of what each is known for, sized by the same few options, not the published
programs. Those that reduce the points to sums have states and predict chunk by chunk; FLARE, the plain transformer,
PointNet, FNO and the graph networks answer at all points of a case in one call.
"""
