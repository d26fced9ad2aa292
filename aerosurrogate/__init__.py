"""Surrogates for aerodynamics: from a folder of shapes to fields, forces and a ranking."""

__version__ = "0.1.0"
