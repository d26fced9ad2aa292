"""Which cases train and which are held out: decided case by case, so that cases added later move no other."""

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

Splits = dict[str, list[str]]

SCARCE = 200  # cases of the scarce task
REYNOLDS = (3e6, 5e6)  # trained on between, tested outside
ANGLES = (-2.5, 12.5)  # degrees, likewise


def held_out(name: str) -> bool:
    """Every fifth case is for testing: by the number its name ends with, else by a check sum of the name."""
    number = re.search(r"(\d+)$", name)
    return (int(number.group(1)) if number else zlib.crc32(name.encode())) % 5 == 4


def four_to_one(names: Iterable[str]) -> Splits:
    """`train` and `test`, 80 and 20 % of the cases."""
    names = sorted(names)
    return {"train": [n for n in names if not held_out(n)], "test": [n for n in names if held_out(n)]}


def first_and_last(names: list[str], train: int, test: int) -> Splits:
    """The first `train` names and the last `test`, as the standard sets are split; fewer where names are few."""
    test = min(test, max(len(names) // 5, 1)) if len(names) < train + test else test
    return {"train": names[: min(train, len(names) - test)], "test": names[len(names) - test :]}


def simulated(cases: Mapping[str, Mapping[str, Any]]) -> Splits:
    """Splits of our own simulations; airfoils have the four tasks of AirfRANS, `full` being `train` and `test` too."""
    splits = four_to_one(cases)
    splits["test"] = splits["test"] or sorted(cases)  # too few to hold any out: a check of own shapes
    if any(case["dimensions"] == 3 for case in cases.values()):
        return splits
    splits |= {"full_train": splits["train"], "full_test": splits["test"]}
    splits |= {"scarce_train": splits["train"][:SCARCE], "scarce_test": splits["test"]}
    for task, key, (low, high) in (("reynolds", _reynolds, REYNOLDS), ("aoa", _angle, ANGLES)):
        inside = {name for name, case in cases.items() if low <= key(case["conditions"]) <= high}
        splits[f"{task}_train"] = sorted(inside)
        splits[f"{task}_test"] = sorted(cases.keys() - inside)
    return splits


def _reynolds(conditions: Mapping[str, float]) -> float:
    return conditions["speed"] * conditions["length"] / conditions["viscosity"]


def _angle(conditions: Mapping[str, float]) -> float:
    return conditions["alpha"]
