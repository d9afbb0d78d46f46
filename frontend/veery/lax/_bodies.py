"""Functions that control flow takes as arguments: staged to jaxprs, with what they close over as operands."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes, source, tree, tree_registry
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.config import config
from veery._core.hitypes import MutableQuasiDynamicData, cur_qdd
from veery._core.jaxpr import ClosedJaxpr, DebugInfo, Var, eval_jaxpr
from veery._core.trace import Tracer, axis_env
from veery._transforms import staging
from veery._transforms.varying import pvary, typed
from veery.lax._convert import convert, convert_element_type_p


class Body(NamedTuple):
    """A staged function: what it closed over are leading arguments of the jaxpr."""

    jaxpr: ClosedJaxpr
    consts: list[Any]
    out_tree: Any


def function_name(fun: Any) -> str:
    """A name for a callable, for messages."""
    return getattr(fun, "__name__", None) or type(fun).__name__


def first_parameter(fun: Any) -> str:
    """The name of a function's first parameter, for messages about its argument."""
    try:
        return next(iter(inspect.signature(fun).parameters))
    except (ValueError, TypeError, StopIteration):
        return "carry"


def place(fun: Any) -> str:
    """A function's name and where it is defined, for messages."""
    where = source.of_function(fun)
    return f"{function_name(fun)} at {where.file}:{where.line}" if where.file else function_name(fun)


# By function, so that a loop over the same function is traced and compiled once.
_staged: weakref.WeakKeyDictionary[Any, dict[Any, Body]] = weakref.WeakKeyDictionary()


def stage_body(fun: Callable[..., Any], in_tree: Any, avals: Sequence[Any], what: str) -> Body:
    """Stage a function of pytrees, once for each type of its arguments, as `jit` does.

    Args:
        fun: the function.
        in_tree: tree of its tuple of arguments.
        avals: types of the leaves.
        what: what takes the function, for messages.
    """
    key = (in_tree, tuple(avals), what, config.trace_key(), axis_env())
    try:
        known = _staged.setdefault(fun, {})
        found = known.get(key)
    except TypeError:  # it cannot be remembered
        return _stage(fun, in_tree, avals, what)
    if found is None:
        found = _stage(fun, in_tree, avals, what)
        if not (found.jaxpr.jaxpr.is_high or any(isinstance(x, Tracer) for x in found.consts)):
            known[key] = found
    return found


def _stage(fun: Callable[..., Any], in_tree: Any, avals: Sequence[Any], what: str) -> Body:
    staging.forbid_tracing(fun)
    out_tree: Any = None

    def flat(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        out = fun(*tree.tree_unflatten(in_tree, leaves))
        out_leaves, out_tree = tree.tree_flatten(out)
        for leaf in out_leaves:
            if maybe_aval_of(leaf) is None:
                raise TypeError(
                    f"{what} function {function_name(fun)} returned a value of type {type(leaf)}, which is not a "
                    "valid JAX type"
                )
        return out_leaves

    where = source.of_function(fun)
    paths = tuple(
        f"{tree_registry.keystr(path)}"
        for path, _ in tree.tree_flatten_with_path(tree.tree_unflatten(in_tree, list(avals)))[0]
    )
    info = DebugInfo(function_name(fun), where.file, where.line, paths, traced_for=what)
    closed, consts = staging.close_over(staging.stage(flat, avals, info))
    return Body(closed, consts, out_tree)


def share_consts(bodies: Sequence[Body]) -> tuple[list[ClosedJaxpr], list[Any]]:
    """The jaxprs with one common list of constants in front, and that list."""
    consts: list[Any] = []
    position: dict[int, int] = {}
    for body in bodies:
        for c in body.consts:
            if id(c) not in position:
                position[id(c)] = len(consts)
                consts.append(c)
    jaxprs = []
    for body in bodies:
        jaxpr = body.jaxpr.jaxpr
        own = {position[id(c)]: v for c, v in zip(body.consts, jaxpr.invars)}
        shared = [own.get(i) or Var(aval_of(c)) for i, c in enumerate(consts)]
        for var, c in zip(shared, consts):
            if var.aval.has_qdd and var not in jaxpr.qdds:
                jaxpr.qdds[var] = MutableQuasiDynamicData(cur_qdd(c))
        jaxprs.append(ClosedJaxpr(jaxpr.replace(invars=[*shared, *jaxpr.invars[len(body.consts) :]]), []))
    return jaxprs, consts


def with_avals(closed: ClosedJaxpr, avals: Sequence[Any], out_avals: Sequence[Any] | None = None) -> ClosedJaxpr:
    """The jaxpr for inputs of these types (and outputs converted to those, if given).

    For avals that differ in weak type or dtype only where the values convert without loss of meaning.
    """

    def fun(*xs: Any) -> list[Any]:
        ins = [as_aval(x, a) for x, a in zip(xs, closed.in_avals)]
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *ins)
        return outs if out_avals is None else [as_aval(o, a) for o, a in zip(outs, out_avals)]

    return staging.stage(fun, avals, closed.debug_info)


def varying_over(closed: ClosedJaxpr, ins: Sequence[Any], outs: Sequence[Any]) -> ClosedJaxpr:
    """The jaxpr for inputs that vary along these axes of a mesh, with outputs that vary along those at least."""
    fun = lambda *xs: [pvary(o, axes) for o, axes in zip(eval_jaxpr(closed.jaxpr, closed.consts, *xs), outs)]
    avals = [typed(aval, aval.varying | axes) for aval, axes in zip(closed.in_avals, ins)]
    return staging.stage(fun, avals, closed.debug_info)


def as_aval(x: Any, aval: Any) -> Any:
    """The value converted to the dtype and weak type of an aval of its shape."""
    mine = aval_of(x)
    if not isinstance(aval, ShapedArray) or (mine.dtype == aval.dtype and mine.weak_type == aval.weak_type):
        return x
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


def as_array(x: Any) -> Any:
    """The value as an array (or tracer), if it is a number of Python or NumPy."""
    is_number = dtypes.is_python_scalar(x) or isinstance(x, (np.ndarray, np.generic))
    return convert(x, weak_type=dtypes.is_weakly_typed(x)) if is_number else x


def same_type(a: Any, b: Any) -> bool:
    """Whether two avals are equal but for weak types."""
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return a.shape == b.shape and a.dtype == b.dtype and (a.divided, a.memory_space) == (b.divided, b.memory_space)
    return bool(a == b)


def difference(a: Any, b: Any) -> str:
    """In what two avals differ, in words."""
    differences = []
    if getattr(a, "dtype", None) != getattr(b, "dtype", None):
        differences.append("the dtypes do not match")
    if getattr(a, "shape", None) != getattr(b, "shape", None):
        differences.append("the shapes do not match")
    if getattr(a, "divided", None) != getattr(b, "divided", None):
        differences.append("the shardings do not match")
    return ", and ".join(differences) or "the types do not match"
