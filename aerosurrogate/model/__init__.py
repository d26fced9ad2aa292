"""Models, tensors in, tensors out: transolver.py is what this package is about, interface.py what all kinds share."""
