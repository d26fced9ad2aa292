"""What the kernels of model/fused.py take of a card, compiled for it without one.

    python benchmarks/gpu_kernels.py [--cards 80 90]

Triton compiles each kernel, in bfloat16, for the two sizes of gpu_counts.py and the cards of these compute capabilities
(80: A100, 90: H100); registers and spilled bytes a thread are what ptxas says of the result. Prints one JSON document.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from aerosurrogate.model import fused

SIZES = {"C = 256, M = 32": (256, 32), "C = 128, M = 64": (128, 64)}
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
INTEGERS = {"n", "tiles", "H"}
FLOATS = {"sums", "counts", "dmap", "dbias", "dtokens", "extra"}  # the other arrays are in bfloat16


def kernels(channels: int, slices: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Each kernel in each of its uses, with the values that are fixed when it is compiled."""
    shape = {"N": fused.POINTS, "C": channels, "M": slices, "DOT": tl.bfloat16}
    mlp = shape | {"M": fused.HIDDEN, "H": 2 * channels // fused.HIDDEN, "SOFTMAX": False}
    slicing, deslicing, moving = (
        {"SLICING": True, "SOFTMAX": True},
        {"SLICING": False, "SOFTMAX": True},
        {"SLICING": False},
    )
    return {
        "slice": (fused._slice, shape),
        "deslice": (fused._deslice, shape | {"H": 8, "SOFTMAX": True}),
        "slice, gradient of points": (fused._points, shape | slicing | {"H": 8}),
        "slice, gradient of maps": (fused._maps, shape | slicing),
        "deslice, gradient of points": (fused._points, shape | deslicing | {"H": 8}),
        "deslice, gradient of maps": (fused._maps, shape | deslicing),
        "MLP": (fused._deslice, mlp),
        "MLP, gradient of points": (fused._points, mlp | moving),
        "MLP, gradient of maps": (fused._maps, {k: v for k, v in mlp.items() if k != "H"} | moving),
    }


def resources(function: Any, fixed: dict[str, Any], card: int) -> dict[str, int]:
    """Registers and spilled bytes a thread, bytes of shared memory a program."""
    names = function.arg_names
    kinds = {name: "i32" if name in INTEGERS else "*fp32" if name in FLOATS else "*bf16" for name in names}
    kinds |= dict.fromkeys(fixed, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if kinds[name].startswith("*")}
    source = ASTSource(function, kinds, fixed, aligned)
    made = triton.compile(source, GPUTarget("cuda", card, 32), {"num_warps": 8, "num_stages": 1})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(made.asm["cubin"])
        command = [TOOLS / "cuobjdump", "--dump-resource-usage", path]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", said)}
    return {"registers": found["REG"], "spilled": found["STACK"] + found["LOCAL"], "shared": made.metadata.shared}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cards", nargs="+", type=int, default=[80, 90])
    cards = parser.parse_args().cards
    print(
        json.dumps(
            {
                f"{name}, sm_{card}, {size}": resources(function, fixed, card)
                for size, sides in SIZES.items()
                for name, (function, fixed) in kernels(*sides).items()
                for card in cards
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
