"""Random graphs of operations of all families, over values of all types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import veery as jax
import veery.numpy as jnp
from fuzz.draw import SIZES, Draw, is_inexact, ml_dtypes_kind
from fuzz.operations import OPERATIONS

MOST_ELEMENTS = 4_000


class Pool:
    """The values that a graph has so far: their types, and how each is made of earlier ones."""

    def __init__(self, draw: Draw, args: list[np.ndarray]):
        self.draw = draw
        self.types: list[Any] = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in args]
        self.steps: list[tuple[Callable[..., Any], tuple[int, ...]]] = []

    def choose(self, kinds: str = "biufc", least_rank: int = 0) -> int | None:
        """One of the values of some kinds, the later ones more often; None if there is none."""
        fitting = [
            i for i, t in enumerate(self.types) if ml_dtypes_kind(t.dtype) in kinds and len(t.shape) >= least_rank
        ]
        if not fitting:
            return None
        return fitting[max(self.draw.integer(0, len(fitting) - 1), self.draw.integer(0, len(fitting) - 1))]

    def like(self, i: int, same_dtype: bool = True) -> int:
        """A value of the shape of another, and of its dtype; the other itself if there is no third."""
        t = self.types[i]
        fitting = [j for j, u in enumerate(self.types) if u.shape == t.shape and (not same_dtype or u.dtype == t.dtype)]
        return self.draw.pick(*fitting)

    def add(self, fun: Callable[..., Any], operands: tuple[int, ...]) -> bool:
        """Append a value unless it is too large."""
        out = jax.eval_shape(fun, *(self.types[i] for i in operands))
        if int(np.prod(out.shape)) > MOST_ELEMENTS:
            return False
        self.types.append(jax.ShapeDtypeStruct(out.shape, out.dtype))
        self.steps.append((fun, operands))
        return True


def random_graph(draw: Draw) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A function of a few arrays that applies random operations, and its arguments."""
    sizes = [draw.pick(*(s for s in SIZES if s <= 129)) for _ in range(draw.integer(2, 3))]
    args = []
    for k in range(draw.integer(1, 4)):
        shape: tuple[int, ...] = ()
        for _ in range(draw.pick(0, 1, 2, 2, 2, 3)):
            size = min(draw.pick(*sizes, draw.size(13)), draw.size(257))
            shape += (size if int(np.prod(shape)) * size <= 2_000 else draw.size(3),)
        kind = draw.pick("float", "float", "int", "bool", "bytes", "complex")
        args.append(_argument(draw, shape, kind if k else "float"))
    pool = Pool(draw, args)
    wanted, tries = draw.integer(2, 9), 0
    while len(pool.steps) < wanted and tries < 60:
        tries += 1
        made = draw.pick(*OPERATIONS)(draw, pool)
        if made is not None:
            pool.add(*made)
    last = len(pool.types) - 1
    outs = sorted({last, *(draw.integer(0, last) for _ in range(draw.integer(0, 2)))})
    if not any(is_inexact(pool.types[i].dtype) for i in outs):
        outs += [i for i in (pool.choose("fc"),) if i is not None]
    return _function(len(args), pool.steps, outs), args


def _function(count: int, steps: list[Any], outs: list[int]) -> Callable[..., Any]:
    def fun(*xs: Any) -> tuple[Any, ...]:
        values = [jnp.asarray(x) for x in xs[:count]]
        for step, operands in steps:
            values.append(step(*(values[i] for i in operands)))
        return tuple(values[i] for i in outs)

    return fun


def _argument(draw: Draw, shape: tuple[int, ...], kind: str) -> np.ndarray:
    if kind == "int":
        return draw.integers(-9, 10, *shape, dtype=draw.pick("int32", "int16", "int8", draw.int))
    if kind == "bytes":
        return draw.bits(*shape, dtype=draw.pick("uint8", "uint16", "uint32"))
    if kind == "bool":
        return draw.mask(*shape)
    if kind == "complex":
        return draw.normal(*shape, dtype=draw.complex)
    return draw.normal(*shape) if draw.chance(0.7) else draw.positive(*shape)
