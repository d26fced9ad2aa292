"""The run folder: what was run, where it is, and all that is needed to go on.

recipe.toml          as run, overrides included
cases.json           training and validation cases, and the scaling fitted to the former
environment.json     versions, machine, command
log.jsonl            one line a logged step, validation or event
history.csv          the same losses as a table
resume.safetensors   weights, averages and optimiser state of one step
last.safetensors     the model of the last checkpoint; best.safetensors: of the best validation
losses.png           curves
validation.csv/json  held-out accuracy at the end
"""

import csv
import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor, nn, optim

from aerosurrogate import __version__, console
from aerosurrogate.devices import processor
from aerosurrogate.errors import InputError
from aerosurrogate.recipe import Recipe, read_recipe
from aerosurrogate.training.distribution import Processes
from aerosurrogate.writing import replacing, write_json, write_text

COLUMNS = ("step", "epoch", "seconds", "learning_rate", "loss", "validation", "points_per_second")


class Run:
    """One run folder, written by the first process only."""

    def __init__(self, folder: Path, recipe: Recipe, own: Processes, *, resume: bool) -> None:
        self.folder, self.own, self.first = folder, own, own.first
        self.resumed: bool = own.told(lambda: self._begin(recipe, resume))

    def _begin(self, recipe: Recipe, resume: bool) -> bool:
        """Look at the folder, and write down what is run there; whether a run goes on."""
        folder, resumed = self.folder, resume and (self.folder / "resume.safetensors").exists()
        if not resume and (folder / "resume.safetensors").exists():
            raise InputError(
                "this folder already holds a run", seen=folder, remedy="go on with --resume, or give another --out"
            )
        if resumed:
            self._compare(recipe)
        elif resume:
            console.note(f"nothing to resume in {folder} yet: starting anew")
        if not resumed:
            for name in ("log.jsonl", "history.csv"):
                (folder / name).unlink(missing_ok=True)
            write_text(folder / "recipe.toml", recipe.toml())
            write_json(folder / "environment.json", environment(self.own.device))
        return resumed

    def _compare(self, recipe: Recipe) -> None:
        """A resumed run keeps its data and architecture; other changes are said and taken."""
        before = read_recipe(self.folder / "recipe.toml").model_dump()
        now = recipe.model_dump()
        changed = [
            f"{table}.{key}"
            for table in ("data", "model", "training")
            for key in now[table]
            if now[table][key] != before[table][key]
        ]
        fixed = [key for key in changed if not key.startswith("training.") or key == "training.seed"]
        if fixed:
            raise InputError(
                f"the run in {self.folder} was started with other settings",
                seen=", ".join(fixed),
                remedy="resume with the recipe it was started with, or give another --out",
            )
        if changed:
            console.note(f"resuming with changed settings: {', '.join(changed)}")

    def log(self, entry: Mapping[str, Any]) -> None:
        """Add a line to the log, and to the history where it has a step and a loss."""
        if not self.first:
            return
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        if "step" in entry and ("loss" in entry or "validation" in entry):
            path = self.folder / "history.csv"
            fresh = not path.exists()
            with path.open("a", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
                if fresh:
                    writer.writeheader()
                writer.writerow(entry)

    def rewind(self, step: int) -> None:
        """Forget what was logged after a step: it will be run again."""
        lines = self.entries()
        write_text(self.folder / "log.jsonl", "".join(json.dumps(e) + "\n" for e in lines if e.get("step", 0) <= step))
        (self.folder / "history.csv").unlink(missing_ok=True)
        kept = [e for e in lines if e.get("step", 0) <= step and ("loss" in e or "validation" in e)]
        with replacing(self.folder / "history.csv") as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)

    def entries(self) -> list[dict[str, Any]]:
        """The lines of the log; one cut off by a kill is left out."""
        path = self.folder / "log.jsonl"
        entries = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        return entries

    def save_state(
        self, modules: Mapping[str, nn.Module], optimiser: optim.Optimizer, state: Mapping[str, Any]
    ) -> None:
        """Weights, optimiser and plain values of one step in one file, whole or not at all."""
        tensors = {f"{name}/{k}": v for name, module in modules.items() for k, v in module.state_dict().items()}
        packed = optimiser.state_dict()
        for index, entries in packed["state"].items():
            tensors |= {f"optimiser/{index}/{key}": torch.as_tensor(value) for key, value in entries.items()}
        plain = json.dumps({**state, "groups": packed["param_groups"]})
        with replacing(self.folder / "resume.safetensors") as temporary:
            save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, temporary, {"state": plain})

    def load_state(self, modules: Mapping[str, nn.Module], optimiser: optim.Optimizer) -> dict[str, Any]:
        """Put back what `save_state` wrote; returns the plain values."""
        path = self.folder / "resume.safetensors"
        try:
            with self.own.fetched(path) as copy, safetensors.safe_open(copy, "pt") as file:
                state = json.loads(file.metadata()["state"])
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, OSError) as error:
            raise InputError(f"checkpoint cannot be read ({error})", seen=path, remedy="start anew elsewhere") from None
        for name, module in modules.items():
            own = {k.removeprefix(f"{name}/"): v for k, v in tensors.items() if k.startswith(f"{name}/")}
            module.load_state_dict(own)
        packed: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith("optimiser/"):
                _, index, entry = key.split("/")
                packed.setdefault(int(index), {})[entry] = value
        optimiser.load_state_dict({"state": packed, "param_groups": state.pop("groups")})
        return state

    def draw_losses(self) -> None:
        """Curves of training loss and validation."""
        import matplotlib

        matplotlib.use("agg")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.add_subplot()
        for key, style in (("loss", "-"), ("validation", "o-")):
            points = [(e["step"], e[key]) for e in self.entries() if key in e and "step" in e]
            if points:
                axes.plot(*zip(*points, strict=True), style, label=key, markersize=3, linewidth=1)
        axes.set(xlabel="step", ylabel="loss", yscale="log", title=self.folder.name)
        axes.grid(alpha=0.3)
        axes.legend()
        with replacing(self.folder / "losses.png") as temporary:
            figure.savefig(temporary, dpi=130)


def environment(device: torch.device) -> dict[str, Any]:
    """Versions and machine, for the run's record."""
    import numpy

    return {
        "aerosurrogate": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": processor(device),
        "threads": torch.get_num_threads(),
        "command": sys.argv,
    }
