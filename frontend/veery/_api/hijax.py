"""Operations of the user's with derivative rules of their own, and what they are in terms of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._api.vectorize import vmap
from veery._core import tree
from veery._core.ad import Zero, add_tangents, instantiate_zeros, is_undefined_primal
from veery._core.avals import aval_of
from veery._core.jaxpr import eval_jaxpr
from veery._transforms.batching import AxisData, batched_aval, move_batch
from veery._transforms.custom_rules import Rule, custom_lin_p
from veery._transforms.high import HiPrimitive
from veery._transforms.jvp import jvp
from veery._transforms.linearize import linearize
from veery.lax import _reduce


class GradAccum:
    """Where a rule `vjp_bwd` puts the cotangent of an argument."""

    def __init__(self, aval: Any):
        self.aval = aval
        self.total: Any = Zero(aval)

    def accum(self, ct: Any) -> None:
        """Add to the cotangent."""
        self.total = add_tangents(self.total, ct)


class NullAccum(GradAccum):
    """In the place of an argument that is not differentiated: its cotangent is dropped."""

    def accum(self, ct: Any) -> None:
        """Nothing."""


class VJPHiPrimitive:
    """The base of operations of the user's with derivative rules of their own: an instance is an operation to call.

    A subclass sets, in `__init__`, `in_avals` (the types of the arguments, pytrees of what `typeof` gives), `out_aval`
    and `params` (a dictionary of hashable values, which become attributes), and calls that of the base. It defines

    - `expand(*args)`: the result, by operations that exist;
    - `vjp_fwd(nzs_in, *args)` -> (result, residuals) and `vjp_bwd_retval(residuals, ct)` -> a tuple of cotangents, or
      `vjp_bwd(residuals, ct, *accumulators)`, which calls `accum` of each that it has a cotangent for;
    - `lin(nzs_in, *args)` -> (result, residuals) and `linearized(residuals, *tangents)` -> the result's tangent, for
      `linearize`; tangents of arguments that are not differentiated are `Zero`. Without `vjp_fwd`, reverse mode
      transposes `linearized`; beside it, `lin` runs when the linear function is called;
    - `jvp(primals, tangents)` -> (result, its tangent), for forward mode;
    - `batch_dim_rule(axis_data, dims)` -> the batch dimension of the result, or `batch(axis_data, args, dims)` ->
      (result, its batch dimension), for `vmap`;
    - `transpose(ct, *args)`, where it is linear.
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"subclass __init__ should set `self.{name}`")
        if self._defines("vjp_bwd") and self._defines("vjp_bwd_retval"):
            raise AttributeError(f"subclass {type(self)} should not override both `vjp_bwd` and `vjp_bwd_retval`")
        self.in_avals_flat, self.in_tree = tree.tree_flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree.tree_flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def check(self, *arg_tys: Any) -> None:
        """Refuse types of arguments that are not right."""

    def expand(self, *args: Any) -> Any:
        raise NotImplementedError(f"subclass {type(self)} must implement `expand`")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        raise NotImplementedError(
            f"for grad support, subclass {type(self)} must implement `vjp_fwd`, and for linearize support `lin` and "
            "`linearized`"
        )

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Accumulate the cotangents that `vjp_bwd_retval` returns."""
        for accums, ct in zip(arg_accums, self.vjp_bwd_retval(res, outgrad)):
            leaves, treedef = tree.tree_flatten(accums)
            for accum, value in zip(leaves, treedef.flatten_up_to(ct)):
                if value is not None:
                    accum.accum(value)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        raise NotImplementedError(
            f"for grad support, subclass {type(self)} must implement `vjp_bwd` or `vjp_bwd_retval`"
        )

    def lin(self, nzs_in: Any, /, *args: Any) -> Any:
        raise NotImplementedError(f"for linearize support, subclass {type(self)} must implement `lin`")

    def linearized(self, res: Any, /, *tangents: Any) -> Any:
        raise NotImplementedError(f"for linearize support, subclass {type(self)} must implement `linearized`")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        raise NotImplementedError(f"for jvp support, subclass {type(self)} must implement `jvp`")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        raise NotImplementedError(f"for transpose support, subclass {type(self)} must implement `transpose`")

    def batch(self, axis_data: Any, args: Any, dims: Any) -> tuple[Any, Any]:
        """The operation on batches, and where its result is batched."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return _Mapped(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        raise NotImplementedError(f"for vmap support, subclass {type(self)} must implement `batch` or `batch_dim_rule`")

    def __call__(self, *args: Any) -> Any:
        return tree.tree_unflatten(self.out_tree, call_hi_primitive_p.bind(*self._flat(args), _prim=self))

    def _defines(self, rule: str) -> bool:
        """Whether the subclass has a rule of its own."""
        return getattr(type(self), rule) is not getattr(VJPHiPrimitive, rule)

    def _flat(self, args: Any) -> list[Any]:
        leaves, treedef = tree.tree_flatten(tuple(args))
        if treedef != self.in_tree:
            raise TypeError(f"{self} takes arguments of the structure {self.in_tree}; got {treedef}")
        return leaves

    def _flat_out(self, out: Any) -> list[Any]:
        leaves, treedef = tree.tree_flatten(out)
        if treedef != self.out_tree:
            raise TypeError(f"{self} has a result of the structure {self.out_tree}; a rule gave {treedef}")
        return leaves

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and (self.params, self.effects) == (other.params, other.effects)


class _Mapped(VJPHiPrimitive):
    """An operation on batches."""

    prim: VJPHiPrimitive
    axis_data: AxisData
    in_dims: Any
    out_dim: Any

    def __init__(self, prim: VJPHiPrimitive, axis_data: AxisData, in_dims: Any, out_dim: Any):
        batched = lambda avals, treedef, dims: tree.tree_unflatten(
            treedef,
            [batched_aval(a, d, axis_data.size, axis_data.explicit) for a, d in zip(avals, _flat_dims(treedef, dims))],
        )
        self.in_avals = batched(prim.in_avals_flat, prim.in_tree, in_dims)
        self.out_aval = batched(prim.out_avals_flat, prim.out_tree, out_dim)
        self.params = dict(prim=prim, axis_data=axis_data, in_dims=in_dims, out_dim=out_dim)
        super().__init__()

    def _vmap(self, fun: Any, in_axes: Any, out_axes: Any) -> Any:
        return vmap(fun, in_axes, out_axes, axis_size=self.axis_data.size, axis_name=self.axis_data.name)

    def expand(self, *args: Any) -> Any:
        return self._vmap(self.prim.expand, self.in_dims, self.out_dim)(*args)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        tangents = tree.tree_map(instantiate_zeros, tangents, is_leaf=lambda x: type(x) is Zero)
        dims = (self.out_dim, self.out_dim)
        return self._vmap(self.prim.jvp, (self.in_dims, self.in_dims), dims)(primals, tangents)

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        nonzeros: list[Any] = []

        def fwd(*xs: Any) -> Any:
            out, residuals, *nonzeros[:] = self.prim.vjp_fwd(nzs_in, *xs)
            return out, residuals

        return *self._vmap(fwd, self.in_dims, (self.out_dim, 0))(*args), *nonzeros

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        ct = tree.tree_map(instantiate_zeros, outgrad, is_leaf=lambda x: type(x) is Zero)
        mapped_accums = tree.tree_leaves(arg_accums)
        wanted = [not isinstance(accum, NullAccum) for accum in mapped_accums]

        def bwd(res: Any, ct: Any) -> list[Any]:
            accums = _accumulators(self.prim, wanted)
            self.prim.vjp_bwd(res, ct, *tree.tree_unflatten(self.prim.in_tree, accums))
            return [instantiate_zeros(accum.total) for accum, w in zip(accums, wanted) if w]

        cts = iter(self._vmap(bwd, (0, self.out_dim), 0)(res, ct))
        for accum, d, w in zip(mapped_accums, _flat_dims(self.prim.in_tree, self.in_dims), wanted):
            if w:
                accum.accum(_of_batch(next(cts), d, self.axis_data))

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        fix = lambda outer, own: outer if outer is None or own is None else outer - (own < outer)
        flat = zip(_flat_dims(self.in_tree, dims), _flat_dims(self.in_tree, self.in_dims))
        out = self.prim.batch_dim_rule(axis_data, tree.tree_unflatten(self.in_tree, [fix(*pair) for pair in flat]))
        pairs = zip(_flat_dims(self.out_tree, out), _flat_dims(self.out_tree, self.out_dim))
        return tree.tree_unflatten(self.out_tree, [d if d is None else d + (own <= d) for d, own in pairs])


def _flat_dims(treedef: Any, dims: Any) -> list[Any]:
    """A dimension for each leaf, from a tree of dimensions, or one for all."""
    found, given = tree.tree_flatten(dims, is_leaf=lambda x: x is None)
    return found if given.num_leaves == treedef.num_leaves else found * treedef.num_leaves


def _accumulators(prim: VJPHiPrimitive, wanted: Sequence[bool]) -> list[GradAccum]:
    """An accumulator for each leaf of the arguments."""
    return [(GradAccum if w else NullAccum)(aval.to_ct_aval()) for aval, w in zip(prim.in_avals_flat, wanted)]


def _of_batch(ct: Any, dim: int | None, axis: AxisData) -> Any:
    """The cotangent of a value batched along `dim`, or of one for all, by those of the elements, along 0."""
    return _reduce.reduce_sum(ct, (0,)) if dim is None else move_batch(ct, 0, dim, axis.size)


def _by_lin(prim: VJPHiPrimitive, nonzeros: Sequence[bool], primals: Sequence[Any]) -> tuple[Any, ...]:
    """Linearise by the rules `lin` and `linearized`."""
    args = tree.tree_unflatten(prim.in_tree, primals)
    out, residuals, *rest = prim.lin(tree.tree_unflatten(prim.in_tree, list(nonzeros)), *args)
    flags = _flat_dims(prim.out_tree, rest[0] if rest else True)

    def linear(residuals: Any, *tangents: Any) -> list[Any]:
        given = iter(tangents)
        filled = [next(given) if nz else Zero(a.to_tangent_aval()) for a, nz in zip(prim.in_avals_flat, nonzeros)]
        found = prim.out_tree.flatten_up_to(prim.linearized(residuals, *tree.tree_unflatten(prim.in_tree, filled)))
        return [instantiate_zeros(t) for t, nz in zip(found, flags) if nz]

    return prim._flat_out(out), tuple(flags), residuals, linear


class _Call(HiPrimitive):
    """Calls of the operations above."""

    multiple_results = True

    def abstract_eval(self, *avals: Any, _prim: VJPHiPrimitive) -> Any:
        for given, expected in zip(avals, _prim.in_avals_flat):
            if (np.shape(given), getattr(given, "dtype", None)) != (expected.shape, getattr(expected, "dtype", None)):
                raise TypeError(f"input type mismatch for {_prim}: expected {expected}, got {given}")
        return list(_prim.out_avals_flat), _prim.effects

    def to_lojax(self, *args: Any, _prim: VJPHiPrimitive) -> list[Any]:
        return _prim._flat_out(_prim.expand(*tree.tree_unflatten(_prim.in_tree, args)))

    def jvp(self, primals: Any, tangents: Any, *, _prim: VJPHiPrimitive) -> Any:  # type: ignore[override]
        both = [tree.tree_unflatten(_prim.in_tree, xs) for xs in (primals, tangents)]
        out, out_tangent = _prim.jvp(*both)
        return _prim._flat_out(out), _prim.out_tree.flatten_up_to(out_tangent)

    def linearize(self, nonzeros: Any, *primals: Any, _prim: VJPHiPrimitive) -> Any:
        has_lin = _prim._defines("lin")
        if has_lin and not _prim._defines("vjp_fwd"):
            return _by_lin(_prim, nonzeros, primals)
        args = tree.tree_unflatten(_prim.in_tree, primals)
        out, residuals, *rest = _prim.vjp_fwd(tree.tree_unflatten(_prim.in_tree, list(nonzeros)), *args)
        outs = _prim._flat_out(out)
        flags = _flat_dims(_prim.out_tree, rest[0] if rest else True)
        kept, treedef = tree.tree_flatten(residuals)
        point = primals if has_lin else ()
        num_res, out_avals = len(kept) + len(point), tuple(aval_of(x).to_tangent_aval() for x in outs)

        def bwd(*values: Any) -> list[Any]:
            accums = _accumulators(_prim, nonzeros)
            res = tree.tree_unflatten(treedef, values[: len(kept)])
            ct = tree.tree_unflatten(_prim.out_tree, values[num_res:])
            _prim.vjp_bwd(res, ct, *tree.tree_unflatten(_prim.in_tree, accums))
            return [accum.total if nz else None for accum, nz in zip(accums, nonzeros)]

        def forward(*values: Any) -> list[Any]:
            _, own_flags, residuals, linear = _by_lin(_prim, nonzeros, values[len(kept) : num_res])
            found = iter(linear(residuals, *values[num_res:]))
            return [next(found) if nz else instantiate_zeros(Zero(a)) for a, nz in zip(out_avals, own_flags)]

        def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
            params = dict(
                name=type(_prim).__name__,
                num_res=num_res,
                perturbed=tuple(nonzeros),
                bwd=Rule(bwd, "bwd"),
                out_avals=out_avals,
                symbolic_zeros=False,
            )
            if has_lin:
                found = linear_part_p.bind(*residuals, *tangents, forward=Rule(forward, "forward"), **params)
            else:
                found = custom_lin_p.bind(*residuals, *tangents, **params)
            return [t for t, nz in zip(found, flags) if nz]

        return outs, tuple(flags), [*kept, *point], linear

    def axis_batch(self, axis: AxisData, args: Any, dims: Any, *, _prim: VJPHiPrimitive) -> Any:
        in_dims = tree.tree_unflatten(_prim.in_tree, list(dims))
        out, out_dim = _prim.batch(axis, tree.tree_unflatten(_prim.in_tree, args), in_dims)
        return _prim._flat_out(out), _flat_dims(_prim.out_tree, out_dim)

    def transpose(self, cts: Any, *args: Any, _prim: VJPHiPrimitive) -> Any:
        accums = [GradAccum(x.aval.to_ct_aval()) if is_undefined_primal(x) else x for x in args]
        ct = tree.tree_unflatten(_prim.out_tree, cts)
        _prim.transpose(ct, *tree.tree_unflatten(_prim.in_tree, accums))
        return [x.total if isinstance(x, GradAccum) else None for x in accums]


class _LinearPart(HiPrimitive):
    """Linear maps that have a rule for either mode: `forward(*residuals, *tangents)` and `bwd(*residuals, *cts)`."""

    multiple_results = True

    def abstract_eval(self, *avals: Any, out_avals: Any, **_params: Any) -> Any:
        return list(out_avals), set()

    def to_lojax(self, *args: Any, forward: Any, **_params: Any) -> Any:
        return forward(*args)

    def jvp(self, primals: Any, tangents: Any, *, forward: Any, **_params: Any) -> Any:  # type: ignore[override]
        return jvp(forward, primals, tangents)

    def transpose(self, cts: Any, *args: Any, forward: Any, **params: Any) -> Any:
        return custom_lin_p.transpose(cts, *args, **params)  # type: ignore[misc]

    def linearize(self, nonzeros: Any, *primals: Any, forward: Any, **_params: Any) -> Any:
        split = linearize(forward, primals, nonzeros)
        apply = lambda residuals, *tangents: eval_jaxpr(split.jaxpr.jaxpr, residuals, *tangents)
        return split.outs, split.nonzeros_out, split.jaxpr.consts, apply

    def axis_batch(self, axis: AxisData, args: Any, dims: Any, *, forward: Any, **_params: Any) -> Any:
        outs = vmap(forward, tuple(dims), axis_size=axis.size, axis_name=axis.name)(*args)
        return outs, [0] * len(outs)


call_hi_primitive_p = _Call("call_hi_primitive")
linear_part_p = _LinearPart("call_hi_primitive_linearized")
