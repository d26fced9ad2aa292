"""What 100 airfoils, and 100 states of one, cost beyond what one costs: core-seconds of the whole command.

    python benchmarks/sweeps.py [--repeats 5] [--out benchmarks/results/sweeps.md]

Each command runs in a process of its own, in turns; user and system time of the process, medians.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path

NAMES = [f"naca{m}{p}{t:02d}" for m in (1, 2, 3, 4) for p in (3, 4, 5) for t in range(8, 17)][:100]
STREAM = ["--reynolds", "3e6", "--json", "--quiet"]
COMMANDS = {
    "one airfoil": ["naca2412", "--alpha", "4", *STREAM],
    "100 airfoils": [*NAMES, "--alpha", "4", *STREAM],
    "100 states of one airfoil": ["naca2412", "--alpha", "-4:15.8:0.2", *STREAM],
}


def core_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "aerosurrogate", "coeffs", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.repeats):
        for name, arguments in COMMANDS.items():
            found[name].append(core_seconds(arguments))
    start = statistics.median(found["one airfoil"])
    lines = [
        "# Many airfoils and many states",
        "",
        f"`python benchmarks/sweeps.py --repeats {options.repeats}` on {os.cpu_count()} cores ({platform.machine()}), "
        f"load {os.getloadavg()[0]:.1f}. Core-seconds (user and system) of the whole command, medians; one airfoil is "
        "the start-up.",
        "",
        "| command | core-seconds | beyond start-up |",
        "|---|---|---|",
    ]
    for name, seconds in found.items():
        middle = statistics.median(seconds)
        lines.append(f"| {name} | {middle:.2f} ({min(seconds):.2f} to {max(seconds):.2f}) | {middle - start:.2f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
