"""Pictures (PNG, without a display) and interactive pages (HTML, one file, offline).

Of a design, that is a file of `predict` or of others:
field       a body's skin from several sides with the plane in the middle; a section with its flow and Cp over x/c
error       prediction, reference and their difference
difference  two designs: where on the skin their drag differs, by part, and along the body
slices      what the model's learned slices have taken hold of
history     losses and learning rate of training runs

Of a held-out case, that is a file of `predict DATASET` or a run: prediction, truth and error (`error`), the prediction
alone (`field`), or `slices`; several times as a strip, as an animation (GIF, MP4) or as a page with a slider.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aerosurrogate.errors import InputError
from aerosurrogate.held_out import is_held_out
from aerosurrogate.writing import replacing, write_text


def viz(
    files: Sequence[Path],
    out: Path,
    *,
    field: str | None = None,
    kind: str | None = None,
    reference: Path | None = None,
    layer: int | None = None,
    case: str | None = None,
) -> None:
    """Draw files or run folders into one picture or page; `layer` is that of the slices, `case` one of a run's data."""
    if not files[0].exists():
        raise InputError("no such file or run", seen=files[0])
    if files[0].is_dir() and (solved := sorted(files[0].glob("*.vtu"))) and (files[0] / "runs").is_dir():
        files = [*solved, *files[1:]]  # a folder of `simulate`
    elif files[0].is_dir() and not _is_run(files[0]) and not (files[0] / "system").is_dir():
        remedy = "give the folder of a run, of `simulate` or of an OpenFOAM case, or a file of fields"
        if (files[0] / "manifest.json").is_file():
            remedy = f"predict its cases first: predict {files[0]} --split test --model MODEL --out DIR"
        raise InputError("nothing to draw in this folder", seen=files[0], remedy=remedy)
    if layer is not None and kind != "slices":
        raise InputError("layers are those of learned slices", seen=f"--layer {layer}", remedy="add --kind slices")
    kept, drawn = is_held_out(files[0]), _is_run(files[0]) and kind not in (None, "history")
    if case is not None and not drawn:
        remedy = "give a run folder and --kind error, field or slices"
        raise InputError("a case is one of a run's data", seen=f"--case {case}", remedy=remedy)
    if kept or drawn:
        from aerosurrogate.viz import cases

        cases.draw(files[0], out, kind=kind or "error", field=field, layer=layer, name=case)
        return
    if out.suffix.lower() not in (".png", ".html"):
        remedy = "end the name with .png for a picture or .html for an interactive page"
        raise InputError("unknown kind of picture", seen=out, remedy=remedy)
    kind = kind or ("error" if reference else "history" if _is_run(files[0]) else "field")
    if (kind == "error") != (reference is not None):
        raise InputError(f"--kind {kind} {'needs' if kind == 'error' else 'takes no'} --reference", seen=reference)
    if kind == "difference" and (len(files) != 2 or out.suffix.lower() != ".png"):
        remedy = "give a design, its baseline and a picture: viz --kind difference new.vtu old.vtu --out difference.png"
        raise InputError(
            "a difference is a picture of two files", seen=f"{len(files)} files, {out.name}", remedy=remedy
        )
    if kind not in ("history", "difference") and len(files) > 1 and (kind != "field" or out.suffix == ".html"):
        raise InputError(f"--kind {kind} shows one file in {out.suffix}", seen=f"{len(files)} files")
    drawing = _draw(kind, files, out.suffix.lower() == ".html", field, reference, layer)
    if out.suffix.lower() == ".html":
        write_text(out, drawing)
    else:
        save_picture(drawing, out)


def save_picture(figure: Any, out: Path) -> None:
    """Write a matplotlib figure as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with replacing(out) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def _is_run(path: Path) -> bool:
    return path.is_dir() and (path / "log.jsonl").is_file()


def _draw(
    kind: str,
    files: Sequence[Path],
    interactive: bool,
    field: str | None,
    reference: Path | None,
    layer: int | None,
) -> Any:
    """A matplotlib figure, or the text of a page."""
    from aerosurrogate.viz import history, page, slices, views
    from aerosurrogate.viz.source import difference, open_source

    if kind == "history":
        return page.history(files) if interactive else history.figure(files)
    sources = [open_source(str(file), field) for file in files]
    if kind == "difference":
        from aerosurrogate.viz import difference as between

        return between.figure(*sources)
    if kind == "slices":
        return page.slices(sources[0], layer) if interactive else slices.figure(sources[0], layer)
    if reference is not None:
        compared = difference(sources[0], str(reference))
        return page.error(compared) if interactive else views.error(compared)
    return page.field(sources[0]) if interactive else views.field(sources)
