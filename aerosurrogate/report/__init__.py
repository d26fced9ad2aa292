"""A ranking to hand on: a page, what it says of the baseline, curves over a sweep, a workbook; styles and scripts."""

from importlib import resources


def text(name: str) -> str:
    """A file of this folder."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
