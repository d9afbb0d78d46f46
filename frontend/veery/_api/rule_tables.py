"""The rules of all primitives as dictionaries, by which programs give rules to primitives of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from veery import _dispatch
from veery._core import ad
from veery._core.ad import LINEAR, Zero, is_undefined_primal
from veery._core.avals import aval_of
from veery._core.primitive import Primitive, all_primitives
from veery._transforms.batching import move_batch
from veery._transforms.discharge import without_own
from veery._transforms.staging import stage

Rule = Callable[..., Any]


class RuleTable(MutableMapping[Primitive, Any]):
    """A view of one field of all primitives: setting an entry sets the field.

    >>> from veery.interpreters import ad
    >>> from veery.lax import sin_p
    >>> sin_p in ad.primitive_jvps
    True
    """

    def __init__(self, field: str, read: Callable[[Primitive], Any] | None = None):
        self._field = field
        self._read = read or (lambda primitive: getattr(primitive, field))

    def __getitem__(self, primitive: Primitive) -> Any:
        if getattr(primitive, self._field) is None:
            raise KeyError(primitive)
        return self._read(primitive)

    def __setitem__(self, primitive: Primitive, rule: Any) -> None:
        setattr(primitive, self._field, rule)

    def __delitem__(self, primitive: Primitive) -> None:
        setattr(primitive, self._field, None)

    def __iter__(self) -> Iterator[Primitive]:
        return iter([p for p in all_primitives if getattr(p, self._field) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, primitive: object) -> bool:
        return isinstance(primitive, Primitive) and getattr(primitive, self._field) is not None


def _jvp_rule(primitive: Primitive) -> Rule:
    return lambda primals, tangents, **params: primitive.apply_jvp(primals, tangents, params)


primitive_jvps = RuleTable("jvp", _jvp_rule)
primitive_transposes = RuleTable("transpose")
primitive_batchers = RuleTable("batch")
fancy_primitive_batchers = RuleTable("axis_batch")


class _AxisPrimitiveBatchers:
    """Takes batching rules of the older form `(axis_size, axis_name, trace_type, operands, dims, **params)`."""

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        primitive.axis_batch = lambda axis, args, dims, **params: rule(
            axis.size, axis.name, None, tuple(args), tuple(dims), **params
        )


axis_primitive_batchers = _AxisPrimitiveBatchers()


# Derivatives.


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """Say that a primitive is linear in all operands, with the transpose `(cotangent, **params) -> cotangents`."""
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Say that a primitive is linear, with the transpose `(cotangent, *operands, **params) -> cotangents`."""
    primitive.jvp = LINEAR
    primitive.transpose = transpose_rule


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Give a derivative rule `(tangent, *operands, **params)` for each operand; None where there is no tangent."""
    without_output = lambda rule: lambda t, out, *operands, **params: rule(t, *operands, **params)
    primitive.jvp = tuple(None if rule is None else without_output(rule) for rule in jvprules)


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Give a derivative rule `(tangent, output, *operands, **params)` for each operand."""
    primitive.jvp = tuple(jvprules)


def defbilinear(primitive: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Say that a primitive is linear in each of two operands, with the transposes `(cotangent, x, y, **params)`."""

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> list[Any]:
        if is_undefined_primal(x):
            return [Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params), None]
        return [None, Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params)]

    primitive.jvp = ad.MULTILINEAR
    primitive.transpose = transpose


# Batches.


def bdim_at_front(x: Any, bdim: int | None, size: int) -> Any:
    """A batch with its batch dimension in front; what has none is broadcast."""
    return move_batch(x, bdim, 0, size)


def broadcast(x: Any, size: int, axis: int) -> Any:
    """A value repeated along a new axis."""
    return move_batch(x, None, axis, size)


def defvectorized(primitive: Primitive) -> None:
    """Say that a primitive works element by element on operands that are all batched alike."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        if len(set(dims)) > 1:
            raise ValueError(f"{primitive}: operands are batched differently, at {list(dims)}; use defbroadcasting")
        out = primitive.bind(*args, **params)
        return out, ([dims[0]] * len(out) if primitive.multiple_results else dims[0])

    primitive.batch = batch


def defbroadcasting(primitive: Primitive) -> None:
    """Say that a primitive works element by element on operands of one shape (after a batch is broadcast)."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        size = next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)
        out = primitive.bind(*(bdim_at_front(x, d, size) for x, d in zip(args, dims)), **params)
        return out, ([0] * len(out) if primitive.multiple_results else 0)

    primitive.batch = batch


def defreducer(primitive: Primitive, ident: Any = None) -> None:
    """Say that a primitive reduces over its parameter `axes`."""

    def batch(args: Sequence[Any], dims: Sequence[int], *, axes: Sequence[int], **params: Any) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        shifted = tuple(a + (a >= dim) for a in axes)
        return primitive.bind(x, axes=shifted, **params), dim - sum(a < dim for a in shifted)

    primitive.batch = batch


# Lowering.


def register_lowering(primitive: Primitive, rule: Rule, platform: str | None = None, inline: bool = True) -> None:
    """Set how a primitive becomes StableHLO.

    Args:
        primitive: the primitive.
        rule: `(ctx, *values, **params)` -> the resulting value or a list of them; emits operations by the builders of
            `veery.interpreters.mlir.hlo`. ctx has avals_in, avals_out and target.
        platform: "cpu", "vulkan" or "cuda"; None for all.
        inline: accepted for compatibility.
    """
    _dispatch.register_lowering(primitive.name, rule, platform)
    if platform is not None:
        _by_platform.add(primitive)
    expands = isinstance(rule, _LoweringByFunction) and primitive not in _by_platform
    primitive.lowered_as = rule.flat if expands else None  # type: ignore[attr-defined]


_by_platform: WeakSet[Primitive] = WeakSet()  # what has rules of single platforms is lowered by these


class _LoweringByFunction:
    """A lowering rule made of a function of arrays that returns a list."""

    def __init__(self, flat: Callable[..., list[Any]]):
        self.flat = flat

    def __call__(self, ctx: Any, *values: Any, **params: Any) -> list[Any]:
        closed = stage(lambda *xs: self.flat(*xs, **params), list(ctx.avals_in))
        found: list[Any] = ctx.inline(without_own(closed), *values)
        return found


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Rule:
    """A lowering rule made of a function of arrays.

    Args:
        fun: `(*arrays, **params)` -> array, or a sequence of arrays.
        multiple_results: whether fun returns a sequence.
    """

    def flat(*arrays: Any, **params: Any) -> list[Any]:
        out = fun(*arrays, **params)
        return list(out) if multiple_results else [out]

    return _LoweringByFunction(flat)


def ir_constant(value: Any) -> Any:
    """A constant tensor at the insertion point of the rule that is running."""
    return _dispatch.lowering_module("stablehlo").constant(np.asarray(value, getattr(aval_of(value), "dtype", None)))
