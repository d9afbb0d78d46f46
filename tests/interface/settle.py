"""Brings veery/_core/absent.py up to date: what is there by now goes, what nothing is said of comes as of later.

PYTHONPATH=tests python tests/interface/settle.py

Whoever knows a better reason for a new line writes it there. After a conflict: take either side, and run this.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from interface.test_names import INSTANCES, RECORDED, is_there, our_name, owner

from veery._core import absent

LATER = "A later version."


def settled_modules() -> dict[str, list[str]]:
    """By reason, the modules that veery has not."""
    found: dict[str, list[str]] = {why: [] for why in absent.MODULES}
    for space in RECORDED.keys() - INSTANCES.keys():
        if not is_there(space):
            why = absent.module_reason(our_name(space)) or LATER
            found.setdefault(why, []).append(our_name(space))
    return found


def settled_names() -> dict[str, dict[str, list[str]]]:
    """By module and reason, the names that it has not."""
    found: dict[str, dict[str, list[str]]] = {}
    for space in RECORDED.keys() - INSTANCES.keys():
        if is_there(space):
            groups = found.setdefault(our_name(space), {})
            modules = {name for name in RECORDED[space] if f"{space}.{name}" in RECORDED}
            for name in RECORDED[space].keys() - set(dir(owner(space))) - modules:
                groups.setdefault(absent.name_reason(our_name(space), name) or LATER, []).append(name)
    return found


def text_of(names: list[str], indent: int) -> str:
    lines = textwrap.wrap(" ".join(sorted(names)), 116 - indent)
    if len(lines) == 1 and len(lines[0]) < 80:
        return f'"{lines[0]}"'
    inner = "".join(" " * (indent + 4) + line + "\n" for line in lines)
    return '"""\n' + inner + " " * indent + '"""'


def main() -> None:
    path = Path(absent.__file__)
    source = path.read_text()
    constants = {value: name for name, value in vars(absent).items() if name.startswith("_") and isinstance(value, str)}
    key = lambda why: constants.get(why, repr(why))

    tables = "NAMES: dict[str, dict[str, str]] = {\n"
    for module, groups in sorted(settled_names().items()):
        rows = [f"        {key(why)}: {text_of(names, 8)},\n" for why, names in sorted(groups.items())]
        tables += f'    "{module}": {{\n{"".join(rows)}    }},\n' if rows else ""
    tables += "}\n\n# Of whole modules, with what is in them.\nMODULES: dict[str, str] = {\n"
    rows = [f"    {key(why)}: {text_of(names, 4)},\n" for why, names in sorted(settled_modules().items()) if names]
    tables += "".join(rows) + "}\n"

    start, end = source.index("NAMES: "), source.index("\n\n\ndef ", source.index("MODULES: ")) + 1
    path.write_text(source[:start] + tables + source[end:])


if __name__ == "__main__":
    main()
