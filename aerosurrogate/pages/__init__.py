"""What pages are made of beside their figures: styles, scripts, and the page of `serve`."""

from importlib import resources


def text(name: str) -> str:
    """A file of this folder."""
    return resources.files("aerosurrogate.pages").joinpath(name).read_text(encoding="utf-8")
