"""Meshes: read and write them, check and repair them, distances, points on and around a body, airfoil
curves."""
