"""Simulations as data: one reader a source, Case, the store, which points and which scaling a model sees."""
