"""The functions that `vjp` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery import _dispatch
from veery._core import dtypes, tree, tree_registry
from veery._core.ad import UndefinedPrimal, Zero, instantiate_zeros
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, subjaxprs
from veery._core.refs import AbstractRef, is_ref
from veery._core.trace import current_trace, eval_trace
from veery._transforms.dce import side_effects
from veery._transforms.transpose import backward_pass
from veery.lax import _refs


def float0_zeros(shape: Any) -> np.ndarray:
    """The tangent of an integer array: an array of float0, which carries nothing."""
    return np.zeros(shape, dtypes.float0)


def as_output(t: Any) -> Any:
    """A tangent or cotangent as the user sees it: arrays in place of symbolic zeros."""
    if type(t) is Zero:
        t = float0_zeros(t.aval.shape) if t.aval.dtype == dtypes.float0 else instantiate_zeros(t)
    if isinstance(t, (int, float, complex, np.generic, np.ndarray)) and not _is_staged():
        return t if aval_of(t).dtype == dtypes.float0 else _dispatch.as_array(t)  # type: ignore[attr-defined]
    return t


def _is_staged() -> bool:
    """Whether operations become equations, of which numbers are literals."""
    trace: Any = current_trace()
    while trace.parent is not None:
        trace = trace.parent
    return trace is not eval_trace


def is_inexact(aval: Any) -> bool:
    """Whether values of a type have derivatives."""
    return type(aval) is not AbstractRef and dtypes.issubdtype(aval.dtype, np.inexact)


class LinearMap:
    """A linear jaxpr with the trees and types around it; its residuals are passed beside it."""

    def __init__(
        self, jaxpr: ClosedJaxpr, in_tree: Any, out_tree: Any, in_avals: Any, out_avals: Any, nonzeros_out: Any
    ):
        self.jaxpr = jaxpr.jaxpr
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.in_avals = in_avals
        self.out_avals = out_avals
        self.nonzeros_out = nonzeros_out
        self.nonzeros_in = tuple(is_inexact(a) for a in in_avals)


class _Mark:
    """What stands in the place of a value; all of one kind are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NotNeeded(_Mark):
    """An argument that the pullback does not need."""

    __slots__ = ()


class GradValue(_Mark):
    """For `with_refs`: the cotangent is to be returned."""

    __slots__ = ()


class DontWant(_Mark):
    """For `with_refs`: nobody wants the cotangent."""

    __slots__ = ()


class GradRef(_Mark):
    """From `with_refs`: the cotangent was added to the reference."""

    __slots__ = ()


class DidntWant(_Mark):
    """From `with_refs`: nobody wanted the cotangent."""

    __slots__ = ()


for kind in (NotNeeded, GradRef, DidntWant):
    tree_registry.register_pytree_node(kind, lambda mark: ((), type(mark)), lambda mark, _: mark())


@dataclass(frozen=True)
class _Source:
    """Where a residual is: its place among the leaves of the arguments, or among the other residuals."""

    index: int
    argument: bool


@dataclass(frozen=True, eq=False)
class _Pullback:
    """What a pullback is beside its residuals."""

    linear: LinearMap
    name: str
    sources: tuple[_Source, ...]


@dataclass(eq=False)
class VJP:
    """The vector-Jacobian product of a function at a point: maps a cotangent of the output to those of the arguments.

    It is a pytree, so that functions under `jit` may return and take it.

    Attributes:
        fun: what it computes, beside the values that follow.
        in_tree: the tree of the arguments.
        out_tree: the tree of the output.
        args_res: for each argument the values that are needed of it, in tuples in place of other containers; what is
            not needed is `NotNeeded()`. They may be replaced by others, as by those that were stored elsewhere.
        opaque_residuals: the other values that are needed.
    """

    fun: Any
    in_tree: Any
    out_tree: Any
    args_res: list[Any]
    opaque_residuals: list[Any]

    @property
    def jaxpr(self) -> Jaxpr:
        """The linear map, from tangents of the arguments to those of the output; its constants are the residuals."""
        return self.fun.linear.jaxpr

    def __call__(self, out_ct: Any, *extra_args: Any) -> Any:
        """The cotangents of the arguments, as a tuple.

        Raises:
            TypeError: there are more arguments than one.
            ValueError: the cotangent has not the structure, the shapes or the dtypes of the output.
        """
        if extra_args:
            name, count = self.fun.name, len(extra_args) + 1
            raise TypeError(
                f"the function returned by `jax.vjp` applied to {name} was called with {count} arguments, but "
                "functions returned by `jax.vjp` must be called with a single argument corresponding to the single "
                f"value returned by {name}"
            )
        return self._pull_back([GradValue()] * self.in_tree.num_leaves, out_ct)

    def with_refs(self, *maybe_ct_refs: Any) -> Any:
        """A pullback that adds cotangents to references.

        Args:
            *maybe_ct_refs: for each argument of the function, in its structure: a reference, to which the cotangent is
                added; `veery.ad.GradValue()` to have it returned; `veery.ad.DontWant()` if nobody wants it, which
                leaves out the operations that only it needs. Without any, all are returned.

        Returns:
            A function of the output's cotangent. Its result has `veery.ad.GradRef()` or `veery.ad.DidntWant()` in the
            place of a cotangent that is not returned.

        Raises:
            ValueError: the arguments have another structure than those of the function.

        >>> import veery, veery.numpy as jnp
        >>> _, pullback = veery.vjp(lambda x: x * x, jnp.array([1.0, 2.0]))
        >>> gradient = veery.new_ref(jnp.zeros(2))
        >>> pullback.with_refs(gradient)(jnp.ones(2))
        (GradRef(),)
        >>> gradient
        Ref([2., 4.], dtype=float32)
        """
        if not maybe_ct_refs:
            return tree_registry.Partial(self)
        wanted, given = tree.tree_flatten(maybe_ct_refs)
        if given != self.in_tree:
            raise ValueError(
                f"with_refs takes a reference for each argument of {self.fun.name}, which have the structure "
                f"{self.in_tree}; got {given}"
            )
        return tree_registry.Partial(lambda out_ct: self._pull_back(wanted, out_ct))

    def _pull_back(self, wanted: Sequence[Any], out_ct: Any) -> Any:
        linear = self.fun.linear
        cts = _flat_cotangents(linear, self.fun.name, out_ct)
        args = tree.tree_leaves(self.args_res, is_leaf=lambda x: isinstance(x, NotNeeded))
        residuals = [args[s.index] if s.argument else self.opaque_residuals[s.index] for s in self.fun.sources]
        skipped = [isinstance(w, DontWant) for w, nz in zip(wanted, linear.nonzeros_in) if nz]
        jaxpr = _without(linear.jaxpr, skipped) if any(skipped) else linear.jaxpr
        found = iter(backward_pass(jaxpr, residuals, [UndefinedPrimal(v.aval) for v in jaxpr.invars], cts))
        results = [
            next(found) if nz else Zero(a.to_tangent_aval()) for a, nz in zip(linear.in_avals, linear.nonzeros_in)
        ]
        return tree.tree_unflatten(self.in_tree, [_delivered(w, ct) for w, ct in zip(wanted, results)])


tree_registry.register_pytree_node(
    VJP,
    lambda vjp: ((vjp.args_res, vjp.opaque_residuals), (vjp.fun, vjp.in_tree, vjp.out_tree)),
    lambda kept, residuals: VJP(*kept, *residuals),
)


def pullback(linear: LinearMap, name: str, leaves: Sequence[Any], residuals: Sequence[Any]) -> VJP:
    """The pullback of a function by its linear map.

    Args:
        linear: the linear map.
        name: of the function.
        leaves: its arguments.
        residuals: the constants of the linear map; some are arguments.
    """
    places = {id(x): i for i, x in reversed(list(enumerate(leaves)))}
    opaque: list[Any] = []
    sources, used = [], set()
    for x in residuals:
        if id(x) in places:
            used.add(places[id(x)])
            sources.append(_Source(places[id(x)], True))
        else:
            sources.append(_Source(len(opaque), False))
            opaque.append(x)
    kept = iter([x if i in used else NotNeeded() for i, x in enumerate(leaves)])
    args_res = [_in_tuples(child, kept) for child in linear.in_tree.children()]
    return VJP(_Pullback(linear, name, tuple(sources)), linear.in_tree, linear.out_tree, args_res, opaque)


def _without(jaxpr: Jaxpr, skipped: Sequence[bool]) -> Jaxpr:
    """A linear jaxpr without equations that only inputs need whose cotangents are skipped.

    The results of these equations are inputs instead, behind the others. Equations whose rules have effects stay.
    """
    linear = set(jaxpr.invars)
    wanted = {v for v, skip in zip(jaxpr.invars, skipped, strict=True) if not skip}
    eqns, results = [], []
    for eqn in jaxpr.eqns:
        operands = {a for a in eqn.invars if isinstance(a, Var)}
        if operands & linear:
            linear.update(eqn.outvars)
            if not operands & wanted and not _has_effects(eqn):
                results += eqn.outvars
                continue
            wanted.update(eqn.outvars)
        eqns.append(eqn)
    return jaxpr.replace(invars=[*jaxpr.invars, *results], eqns=eqns)


def _has_effects(eqn: JaxprEqn) -> bool:
    """Whether the transpose of an equation may do more than to give cotangents, as rules of the user's may."""
    if eqn.primitive.transposes_zeros or side_effects(eqn.effects):
        return True
    return any(_has_effects(inner) for jaxpr in subjaxprs(eqn.params) for inner in jaxpr.eqns)


def _in_tuples(treedef: Any, leaves: Iterator[Any]) -> Any:
    """The leaves in the structure of a tree, with tuples for its containers."""
    if treedef.is_leaf():
        return next(leaves)
    return tuple([_in_tuples(child, leaves) for child in treedef.children()])


def _delivered(wanted: Any, ct: Any) -> Any:
    """What is returned in the place of a cotangent."""
    if isinstance(wanted, DontWant):
        return DidntWant()
    if not is_ref(wanted):
        return as_output(ct)
    if type(ct) is not Zero:
        _refs.addupdate(wanted, None, ct)
    return GradRef()


def _flat_cotangents(linear: LinearMap, name: str, out_ct: Any) -> list[Any]:
    """The cotangents of those outputs that depend on the arguments."""
    flat_cts, ct_tree = tree.tree_flatten(out_ct)
    if ct_tree != linear.out_tree:
        raise ValueError(
            f"unexpected tree structure of argument to vjp function of {name}: got {ct_tree}, but expected to match "
            f"{linear.out_tree}"
        )
    cts = [_checked_cotangent(aval, ct, name) for aval, ct in zip(linear.out_avals, flat_cts)]
    return [ct for ct, nz in zip(cts, linear.nonzeros_out) if nz]


def _checked_cotangent(aval: Any, ct: Any, name: str) -> Any:
    expected = aval.to_tangent_aval()
    if expected.dtype == dtypes.float0:
        return Zero(expected)
    given = aval_of(ct)
    if given.shape != aval.shape or given.dtype != expected.dtype:  # type: ignore[attr-defined]
        raise ValueError(
            f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function of {name}: got {given}, but expected "
            f"{expected} because the corresponding output of the function {name} had JAX type {aval}"
        )
    return ct
