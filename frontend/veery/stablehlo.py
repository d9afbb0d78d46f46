"""StableHLO in and out: modules made by JAX, PyTorch or veery as callables.

`jit(f).lower(...).as_text()` and `.as_bytecode()` give the module of a function.

>>> import veery, veery.numpy as jnp
>>> text = veery.jit(lambda x: 2 * x).lower(jnp.ones(3)).as_text()
>>> double = veery.stablehlo.load(text)
>>> double(jnp.arange(3.0))
Array([0., 2., 4.], dtype=float32)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from veery import _dispatch
from veery._api.jit import JitFunction, JitOptions
from veery._api.shape_structs import ShapeDtypeStruct
from veery._transforms.foreign import call_module_p, types_of

__all__ = ["StablehloFunction", "load"]


class StablehloFunction(JitFunction):
    """The public function of a StableHLO module: takes arrays, returns an array, or a tuple of several.

    It can be called in other functions under `jit`. It cannot be differentiated or mapped: its shapes are fixed.

    Attributes:
        module: what was read.
        in_avals, out_avals: the types of its arguments and results.
    """

    def __init__(self, module: Any):
        types = types_of(module)

        def function(*args: Any) -> Any:
            outs = call_module_p.bind(*args, module=module, types=types)
            return outs[0] if len(outs) == 1 else tuple(outs)

        function.__name__ = function.__qualname__ = module.name
        super().__init__(function, JitOptions())
        self.module = module
        self.in_avals, self.out_avals = types

    @property
    def args(self) -> tuple[ShapeDtypeStruct, ...]:
        """The types of the arguments, for `lower` and `trace`."""
        return tuple(ShapeDtypeStruct(a.shape, a.dtype) for a in self.in_avals)

    def __repr__(self) -> str:
        types = ", ".join(a.str_short() for a in self.in_avals), ", ".join(a.str_short() for a in self.out_avals)
        return f"<StableHLO {self.module.name}({types[0]}) -> ({types[1]})>"


def load(source: str | bytes | os.PathLike[str]) -> StablehloFunction:
    """Make a StableHLO module callable.

    Its operations compute what their specification says, as veery's own do: `sort` is stable, lookups outside of an
    array read its edge, updates outside are left out.

    Args:
        source: MLIR text or bytecode, a versioned portable artifact (as `jax.export` and PyTorch/XLA write them), or
            the path of a file with any of these (as a `pathlib.Path`).

    Raises:
        OSError: the file cannot be read.
        ValueError: the module cannot be parsed, or has dimensions that are not static.

    >>> import veery, veery.numpy as jnp
    >>> module = veery.jit(jnp.sin).lower(jnp.ones(3)).as_bytecode()
    >>> veery.stablehlo.load(module)
    <StableHLO sin(f32[3]) -> (f32[3])>
    """
    if isinstance(source, os.PathLike):
        data = Path(source).read_bytes()
        source = data if data[:4] == b"ML\xefR" else data.decode(errors="replace")
    return StablehloFunction(_dispatch.read_module(source))
