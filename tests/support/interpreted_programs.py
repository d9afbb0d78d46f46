"""Programs evaluated by their operations' NumPy references instead of being compiled: eager use without a compiler.

It lasts as long as the process, since programs are remembered: for processes of their own only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from support.numpy_trace import numpy_evaluation

from veery import _dispatch
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr

compile_jaxpr = _dispatch.compile_jaxpr


class Interpreted:
    """Stands in for an executable; what has no reference is compiled after all."""

    def __init__(self, closed: ClosedJaxpr, name: str, device: Any, *args: Any, **options: Any):
        self.closed = closed
        self.device = device
        self.queue = "NumPy"
        self.compile = lambda: compile_jaxpr(closed, name, device, *args, **options)
        self.compiled: Any = None

    def call(self, buffers: Sequence[Any]) -> list[Any]:
        if self.compiled is None:
            try:
                return self.interpret(buffers)
            except AssertionError:  # an operation without a reference
                self.compiled = self.compile()
        return self.compiled(buffers)

    __call__ = call

    def interpret(self, buffers: Sequence[Any]) -> list[Any]:
        args = [b.numpy().reshape(aval.shape) for b, aval in zip(buffers, self.closed.in_avals)]
        with numpy_evaluation(), np.errstate(all="ignore"):
            outs = eval_jaxpr(self.closed.jaxpr, self.closed.consts, *args)
        return [_dispatch.runtime().put(np.array(x, order="C"), self.device) for x in outs]


def install() -> None:
    """Interpret all programs of this process from now on."""
    _dispatch.compile_jaxpr = Interpreted  # type: ignore[assignment]
