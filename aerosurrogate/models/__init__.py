"""The models that come with the package: weights with their cards, and the list of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aerosurrogate import console
from aerosurrogate.errors import InputError

if TYPE_CHECKING:  # torch takes seconds to import, and `--help` does without
    from aerosurrogate.surrogate import Header


@dataclass(frozen=True)
class Models:
    """Headers of models by name; all of them in short, or one in full."""

    headers: dict[str, "Header"]
    whole: bool

    def document(self) -> dict[str, Any]:
        """Everything in the headers but the tables of numbers that only the program needs."""
        left_out = ("scaling", "trust", "calibration", "native", "learned")
        return {
            "models": [
                {"name": name, **{key: value for key, value in header.items() if key not in left_out}}
                for name, header in self.headers.items()
            ]
        }

    def show(self) -> None:
        if not self.headers:
            console.note("no models come with this installation; train one: aerosurrogate train recipes/naca_rans.toml")
        if self.whole:
            for name, header in self.headers.items():
                console.table(f"model {name}", ("", "value"), _card(header), results=True)
            return
        columns = ("model", "trained on", "cases", "Reynolds number", "angle", "held-out accuracy")
        console.table("", columns, [_line(name, header) for name, header in self.headers.items()], results=True)
        console.note("aerosurrogate models NAME shows a card in full")


def models(name: str | None = None) -> Models:
    """The models that come with the package, or the one of that name, run folder or file."""
    from aerosurrogate.surrogate import find_model, read_header, shipped_models

    found = shipped_models()
    if name is None:
        return Models({each: read_header(path) for each, path in found.items()}, whole=False)
    if name not in found and not Path(name).exists():
        remedy = f"there are {', '.join(found)}; or give a run folder" if found else "give a run folder or a checkpoint"
        raise InputError("no model of that name comes with the package", seen=name, remedy=remedy)
    return Models({name: read_header(find_model(name))}, whole=True)


def _line(name: str, header: "Header") -> list[str]:
    card, ranges = header["card"], header["ranges"]
    data = card.get("data")
    return [
        name,
        "-" if data is None else data["set"],
        "-" if data is None else str(data["train"]),
        _between(ranges.get("reynolds"), "{:.2g}"),
        _between(ranges.get("alpha"), "{:g}") if header["architecture"]["dimensions"] == 2 else "-",
        _accuracy(card.get("test") or card.get("validation") or {}),
    ]


def _between(limits: list[float] | None, text: str) -> str:
    return "-" if limits is None else f"{text.format(limits[0])} to {text.format(limits[1])}"


def _accuracy(figures: dict[str, float]) -> str:
    """The figures that decide: rank correlation and error of drag, by the better route."""
    ranks = {route: figures.get(f"rho_D_{route}") for route in ("head", "integrated", "both")}
    known = {route: rho for route, rho in ranks.items() if rho is not None}
    if not known:
        return "-"
    route = max(known, key=lambda r: known[r])
    error = figures.get(f"cd_{route}_error")
    return f"rho_D {known[route]:.3f}" + ("" if error is None else f", Cd {error:.1%}")


def _card(header: "Header") -> list[tuple[str, str]]:
    """A header as rows of a table, nested entries named by their path."""
    rows = [
        ("answers", ", ".join(f"{output['name']} ({output['unit']})" for output in header["outputs"])),
        ("coefficients", ", ".join(header["coefficients"]) or "by integration only"),
        ("inputs", ", ".join(header["inputs"])),
    ]
    for name, limits in header["ranges"].items():
        rows.append((f"range of {name}", _between(limits, "{:.4g}")))
    return rows + _flat(header["card"]) + [("versions", ", ".join(f"{k} {v}" for k, v in header["versions"].items()))]


def _flat(entries: Mapping[str, object], above: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in entries.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            rows += _flat(value, f"{name}: ")
        elif isinstance(value, float):
            rows.append((name, f"{value:.4g}"))
        else:
            rows.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows
