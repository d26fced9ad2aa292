"""Real RANS by OpenFOAM: cases written, run and read; seeded data sets and checks of single designs."""
