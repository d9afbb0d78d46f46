"""`visualize`: all stages of a compilation side by side, in a notebook or a browser."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veery._api.jit import JitFunction, jit


class Visualization:
    """A page of all stages: shown by notebooks, written to a file by `save`.

    Attributes:
        page: the page's HTML, self-contained.
    """

    def __init__(self, name: str, page: str):
        self._name = name
        self.page = page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, to be opened in a browser."""
        Path(path).write_text(self.page)

    def __repr__(self) -> str:
        return f"Visualization({self._name}, {len(self.page) // 1024} KiB; show it in a notebook or .save('page.html'))"

    def _repr_html_(self) -> str:
        style = "width:100%;height:640px;border:1px solid #d8dce3"
        return f'<iframe srcdoc="{html.escape(self.page, quote=True)}" style="{style}"></iframe>'


def visualize(fun: Callable[..., Any], *, target: str | None = None) -> Callable[..., Visualization]:
    """A function that shows how `fun` is compiled for given arguments.

    Args:
        fun: the function, or `jit` of it.
        target: as for `veery.aot.compile`; by default this machine.

    Returns:
        A function of arrays or ShapeDtypeStructs that returns a `Visualization`: source, jaxpr, graph, StableHLO,
        dispatches and code side by side; a click on a line lights up what became of it.

    >>> import veery, veery.numpy as jnp
    >>> page = veery.visualize(jnp.sin)(jnp.ones(3)).page
    >>> page.startswith("<!doctype html>")
    True
    """
    function = fun if isinstance(fun, JitFunction) else jit(fun)

    def visualized(*args: Any, **kwargs: Any) -> Visualization:
        traced = function.trace(*args, **kwargs)
        from veery._api.page import page  # needs click and rich, which take 30 ms to import

        return Visualization(traced.fun_name, page(traced, target))

    return visualized
