"""Sphinx settings of the documents; `make docs` builds them."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
for _folder in ("runtime", "lowering", "frontend"):
    sys.path.insert(0, str(ROOT / _folder))

from veery._core import absent  # noqa: E402
from veery.version import JAX_VERSION, VEERY_VERSION  # noqa: E402

project = "veery"
author = "The veery authors"
copyright = "The veery authors"
release = version = VEERY_VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "veery"
html_copy_source = False
html_show_sphinx = False

autodoc_typehints = "none"  # signatures have them
autodoc_member_order = "bysource"
autosummary_generate = False  # one page a module, written below
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # else fields of named tuples are described twice

# The reference: a page for each module, with all that is public in it.

MODULES = (
    "veery veery.numpy veery.numpy.linalg veery.numpy.fft veery.lax veery.lax.linalg veery.nn veery.nn.initializers"
    " veery.random veery.tree veery.tree_util veery.flatten_util veery.debug veery.experimental.checkify veery.aot"
    " veery.export veery.stablehlo veery.stages veery.ad_checkpoint veery.custom_derivatives veery.custom_batching"
    " veery.ad veery.memory veery.scipy.special veery.scipy.stats"
    " veery.scipy.linalg veery.scipy.signal veery.scipy.fft veery.scipy.ndimage veery.scipy.optimize"
    " veery.scipy.integrate veery.scipy.interpolate veery.scipy.cluster.vq veery.scipy.sparse.linalg"
    " veery.scipy.spatial.transform veery.image"
    " veery.ops veery.ref veery.dlpack veery.dtypes veery.errors veery.sharding veery.test_util veery_runtime"
).split()


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Names and objects that a module offers: those of `__all__`, else those of veery without underscore."""
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    for name in names:
        value = getattr(module, name)
        if not isinstance(value, ModuleType) and _is_ours(value):
            yield name, value


def _is_ours(value: Any) -> bool:
    home = getattr(value, "__module__", None) or type(value).__module__
    return callable(value) and home.split(".")[0] in ("veery", "veery_runtime")


_described: set[type] = set()  # classes have one description, though they may have several names


def _page(name: str) -> str:
    module = importlib.import_module(name)
    public = dict(_public(module))
    classes = [n for n, value in public.items() if inspect.isclass(value)]
    functions = [n for n in public if n not in classes]
    parts = [
        f"{name}\n{'=' * len(name)}\n",
        f".. automodule:: {name}\n   :no-members:\n",
        f".. currentmodule:: {name}\n",
    ]
    for title, names in (("Functions", functions), ("Classes", classes)):
        if names:
            table = "\n".join(f"   {n}" for n in names)
            parts.append(f"{title}\n{'-' * len(title)}\n\n.. autosummary::\n   :nosignatures:\n\n{table}\n")
    parts += [f".. autofunction:: {n}\n" for n in functions]
    for n in classes:
        again = "   :no-index:\n" if public[n] in _described else ""
        parts.append(f".. autoclass:: {n}\n   :members:\n{again}")
    _described.update(public[n] for n in classes)
    primitives = ", ".join(f"``{n}``" for n in dir(module) if n.endswith("_p"))
    if primitives:
        parts.append(f"Primitives\n----------\n\n{primitives}\n")
    return "\n".join(parts)


def _write_reference(app: Any) -> None:
    folder = Path(app.srcdir) / "reference/generated"
    folder.mkdir(exist_ok=True)
    pages = {"account": _account(), **{name: _page(name) for name in MODULES}}
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:  # else Sphinx would read it again
            path.write_text(text)


def _account() -> str:
    """The page that says which names of JAX are there."""
    recorded = json.loads((ROOT / "tests/interface/signatures.json").read_text())
    rows = [("module of JAX", "names", "there", "absent")]
    for space, names in recorded.items():
        if not space.startswith("jax"):
            continue
        ours = "veery" + space.removeprefix("jax")
        whole = absent.module_reason(ours)
        if whole is not None:
            rows.append((space, len(names), 0, whole.replace("`", "``")))
            continue
        groups = {}
        for name in sorted(names.keys() - set(dir(importlib.import_module(ours)))):
            groups.setdefault(absent.name_reason(ours, name), []).append(f"``{name}``")
        told = " ".join(f"{', '.join(found)}: {why.replace('`', '``')}" for why, found in groups.items())
        rows.append((space, len(names), len(names) - sum(map(len, groups.values())), told))
    total = [sum(row[i] for row in rows[1:]) for i in (1, 2)]
    rows.append(("all", *total, ""))
    lines = (f"   * - {a}\n     - {b}\n     - {c}\n     - {d}" for a, b, c, d in rows)
    title = "JAX's names: an account"
    return f"""{title}
{"=" * len(title)}

The public names of JAX {JAX_VERSION}, and those that veery has. Reading one that is absent says why.

.. list-table::
   :header-rows: 1
   :widths: 25 7 7 61

""" + "\n".join(lines)


_EXAMPLE = re.compile(r"^\s*(>>>|\.\.\. |\.\.\.$)")
_EXAMPLE_MARK = "\0"
_SPECIAL = re.compile(r"(?<!\\)([*|]|(?<=\w)_(?=\W|$))")


def _as_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with examples and code in single backticks: make reStructuredText of them."""
    text, example = "", False
    for line in lines:
        example = bool(_EXAMPLE.match(line)) or (example and bool(line.strip()))
        text += f"{_EXAMPLE_MARK if example else ''}{line}\n"
    parts = re.split(rf"(^{_EXAMPLE_MARK}.*$|`+[^`]+`+)", text, flags=re.MULTILINE)
    for i, part in enumerate(parts):
        if part.startswith("`"):
            joined = parts[i + 1][:1].isalnum()  # "`Array`s": reStructuredText wants a mark between
            parts[i] = f"``{part.strip('`')}``" + ("\\ " if joined else "")
        elif not part.startswith(_EXAMPLE_MARK):
            parts[i] = _SPECIAL.sub(r"\\\1", part)
    lines[:] = "".join(parts).replace(_EXAMPLE_MARK, "").splitlines()


def setup(app: Any) -> None:
    app.connect("builder-inited", _write_reference)
    app.connect("autodoc-process-docstring", _as_text, priority=100)  # before napoleon, which has 500
