"""Other models to stand beside Transolver: the paper's baselines and some that came after it, one short file each.

They are sketches in our own code of what each is known for, sized by the same few options, not the published
programs. None is taken apart into states: each answers at all points of a case in one call.
"""
