"""Writes docs/recipe.md: every key of a recipe, from the types that check it and the comments beside them.

Run: python docs/recipe_keys.py
"""

import ast
import inspect
import re
from pathlib import Path

from aerosurrogate import recipe
from aerosurrogate.model import architecture

PAGE = Path(__file__).with_name("recipe.md")
HEAD = """# Recipe keys

A recipe is a TOML file with the tables `[data]`, `[model]` and `[training]`, a `name`, and optionally `[card]` (what
people should know of the model) and `[paper]` (figures to compare with). `train --set SECTION.KEY=VALUE` overrides
any key. Keys without a default must be given. This page is made from the program by `python docs/recipe_keys.py`.
"""
TABLES = {
    "[data]": recipe.Data,
    "[model]": architecture.TransolverConfig,
    "[training]": recipe.Training,
}
COLUMNS = "| key | values | default | meaning |\n|---|---|---|---|"
WORDS = {
    "PositiveInt": "whole number above 0",
    "NonNegativeInt": "whole number, 0 or more",
    "PositiveFloat": "number above 0",
    "NonNegativeFloat": "number, 0 or more",
    "Fraction": "number from 0 to below 1",
    "Path": "folder",
    "bool": "true or false",
    "str": "text",
    "int": "whole number",
    "float": "number",
    "None": "nothing",
}


def page() -> str:
    parts = [HEAD]
    for title, table in TABLES.items():
        parts += [f"## {title}\n", f"{inspect.getdoc(table)}\n", COLUMNS]
        parts += [f"| `{key}` | {kind} | {default} | {meaning} |" for key, kind, default, meaning in keys(table)] + [""]
    return "\n".join(parts)


def keys(table: type) -> list[tuple[str, str, str, str]]:
    """Name, values, default and meaning of each key of a table."""
    lines = inspect.getsource(table).splitlines()
    body = ast.parse("\n".join(lines)).body[0]
    assert isinstance(body, ast.ClassDef)
    found = []
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            _, _, beside = lines[(node.end_lineno or 1) - 1].partition("  # ")
            above, line = [], node.lineno - 2
            while lines[line].strip().startswith("#"):
                above.insert(0, lines[line].strip(" #"))
                line -= 1
            found.append((node.target.id, _kind(node.annotation), _default(node.value), " ".join(above) or beside))
    return found


def _kind(node: ast.expr) -> str:
    text = ast.unparse(node)
    if isinstance(node, ast.BinOp):
        sides = [_kind(side) for side in (node.left, node.right)]
        return " or ".join(side for side in sides if side != "nothing")
    if isinstance(node, ast.Subscript):
        outer, inner = ast.unparse(node.value), node.slice
        if outer == "Literal":
            value = ast.literal_eval(inner)
            return ", ".join(f"`{word}`" for word in (value if isinstance(value, tuple) else (value,)))
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if outer == "Annotated":
            return _kind(parts[0])
        if outer == "dict":
            return f"table of {_kind(parts[1])}"
        if outer == "tuple":
            same = len(parts) == 2 and ast.unparse(parts[1]) == "..."
            return f"list of {_kind(parts[0])}" if same else "list of " + ", ".join(_kind(part) for part in parts)
    return WORDS.get(text, text)


def _default(node: ast.expr | None) -> str:
    if node is None:
        return ""
    if isinstance(node, ast.Call):  # Field(value, ...)
        node = node.args[0]
    value = ast.literal_eval(node)
    if value in (None, "", (), {}):
        return "none"
    return f"`{re.sub('True|False', lambda m: m[0].lower(), str(value))}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
