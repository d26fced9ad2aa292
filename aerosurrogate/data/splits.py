"""Which cases train and which are held out: decided case by case, so that cases added later move no other."""

import re
import zlib
from collections.abc import Iterable, Mapping

from aerosurrogate.data.store import Entry, stream_of

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


def simulated(cases: Mapping[str, Entry]) -> Splits:
    """Splits of our own simulations; airfoils have the four tasks of AirfRANS, `full` being `train` and `test` too."""
    splits = four_to_one(cases)
    splits["test"] = splits["test"] or sorted(cases)  # too few to hold any out: a check of own shapes
    if any(case["dimensions"] == 3 for case in cases.values()):
        return splits
    splits |= {"full_train": splits["train"], "full_test": splits["test"]}
    splits |= {"scarce_train": splits["train"][:SCARCE], "scarce_test": splits["test"]}
    for task, key, (low, high) in (("reynolds", "reynolds", REYNOLDS), ("aoa", "alpha", ANGLES)):
        inside = {name for name, case in cases.items() if low <= getattr(stream_of(case), key) <= high}
        splits[f"{task}_train"] = sorted(inside)
        splits[f"{task}_test"] = sorted(cases.keys() - inside)
    return splits
