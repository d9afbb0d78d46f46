"""Functions with derivative rules of the user's own."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from veery import _dispatch
from veery._api.arguments import as_tuple, function_name, signature, wraps
from veery._core import dtypes, source, tree, tree_registry
from veery._core.ad import Zero, instantiate_zeros
from veery._core.avals import aval_of, maybe_aval_of
from veery._core.config import config
from veery._core.errors import UnexpectedTracerError
from veery._core.flat import FlatFunction
from veery._core.jaxpr import eval_jaxpr
from veery._core.trace import Tracer
from veery._core.tree import tree_map
from veery._core.tree_registry import Partial
from veery._transforms.custom_rules import CustomJVPCall, CustomVJPCall
from veery._transforms.staging import close_over, stage
from veery.lax import _fill, convert_element_type, stop_gradient


class SymbolicZero:
    """A tangent or cotangent that is known to be zero, as rules with `symbolic_zeros=True` see it."""

    def __init__(self, aval: Any):
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a pytree of values: arrays, or SymbolicZeros."""

    def zero_of(x: Any) -> Any:
        zero = Zero.from_primal_value(x)
        return SymbolicZero(zero.aval) if symbolic_zeros else instantiate_zeros(zero)

    return tree.tree_map(zero_of, val)


def _positions(fun: Any, argnums: Any, argnames: Any = ()) -> tuple[int, ...]:
    """Positions of arguments given by position or by name."""
    names = as_tuple(argnames)
    found = list(as_tuple(argnums))
    if names:
        parameters = list(signature(fun).parameters)  # type: ignore[union-attr]
        found += [parameters.index(name) for name in names]
    return tuple(sorted(found))


def resolve_kwargs(kind: str, fun: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Keyword arguments made positional, defaults filled in.

    Args:
        kind: "custom_jvp", "custom_vjp" or "custom_vmap", for the message.
        fun: the function.
        args: its positional arguments.
        kwargs: its keyword arguments.

    Raises:
        TypeError: the arguments do not fit the function's signature, or some can only be given by keyword.
    """
    # arguments that a partial object holds are its own, whatever their names
    sig = None if isinstance(fun, functools.partial) else signature(fun)
    try:
        if sig is None:
            _refuse_by_name(kwargs)
            return args
        bound = sig.bind(*args, **kwargs)
        bound.apply_defaults()
        _refuse_by_name([name for name in bound.kwargs if name in kwargs])  # the others have their defaults
    except TypeError as error:
        raise TypeError(
            f"The input arguments to the {kind}-decorated function {function_name(fun)} could not be resolved to "
            f"positional-only arguments. Binding failed with the error:\n{error}"
        ) from error
    return bound.args


def _refuse_by_name(names: Collection[str]) -> None:
    if names:
        raise TypeError(f"The following keyword arguments could not be resolved to positions: {', '.join(names)}")


def _split(args: Sequence[Any], static: tuple[int, ...]) -> tuple[dict[int, Any], tuple[Any, ...]]:
    """Arguments that are not differentiated, by position, and the others in order."""
    positions = {i % len(args) for i in static} if args else set()
    return {i: args[i] for i in sorted(positions)}, tuple(x for i, x in enumerate(args) if i not in positions)


def _merge(static: dict[int, Any], dynamic: Sequence[Any]) -> list[Any]:
    rest = iter(dynamic)
    return [static[i] if i in static else next(rest) for i in range(len(static) + len(dynamic))]


def _without_tangent(x: Any) -> Any:
    """A leaf of an argument that is not differentiated."""
    if not isinstance(x, Tracer):
        return x

    return stop_gradient(x)


def _check_leaves(name: str, leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        if maybe_aval_of(leaf) is None:
            raise TypeError(
                f"Argument '{leaf}' of type {type(leaf)} of the function {name} is not a valid JAX type. Arguments "
                "that are no arrays must be listed in nondiff_argnums."
            )


class Decorated:
    """A function with a rule of its own. It may hold one with a rule of another kind, which is set through it."""

    fun: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("def"):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class custom_jvp(Decorated):  # noqa: N801 (a decorator)
    """Give a function a forward-mode derivative rule, from which the reverse mode follows too.

    Args:
        fun: the function.
        nondiff_argnums: positions of arguments that are not differentiated; the rule takes them first, in order.
        nondiff_argnames: names of such arguments.

    The rule is set with `defjvp` (or `defjvps`).

    >>> import veery, veery.numpy as jnp
    >>> @veery.custom_jvp
    ... def log1pexp(x):
    ...     return jnp.log(1.0 + jnp.exp(x))
    >>> @log1pexp.defjvp
    ... def _(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t
    >>> float(veery.grad(log1pexp)(100.0))
    1.0
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        wraps(fun)(self)
        self.fun = fun
        self.nondiff_argnums = _positions(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule `jvp(*nondiff_args, primals, tangents) -> (output, output_tangent)`.

        Args:
            jvp: the rule.
            symbolic_zeros: whether tangents that are zero arrive as SymbolicZero instead of arrays.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule for each argument: `(tangent, output, *primals) -> tangent contribution`, or None for zero."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            out = self(*primals)
            zeros = tree.tree_map(lambda x: _fill.full_like(x, 0), out)
            parts = [rule(t, out, *primals) for t, rule in zip(tangents, jvps) if rule is not None]
            return out, functools.reduce(functools.partial(tree.tree_map, operator.add), parts, zeros)

        self.defjvp(jvp)

    @source.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
        static, dynamic = _split(resolve_kwargs("custom_jvp", self.fun, args, kwargs), self.nondiff_argnums)
        static = {i: tree.tree_map(_without_tangent, x) for i, x in static.items()}
        leaves, in_tree = tree.tree_flatten(dynamic)
        _check_leaves(name, leaves)
        trees: dict[str, Any] = {}

        def flat(*xs: Any) -> list[Any]:
            out = self.fun(*_merge(static, tree.tree_unflatten(in_tree, xs)))
            out_leaves, trees["out"] = tree.tree_flatten(out)
            trees["avals"] = list(map(aval_of, out_leaves))
            return out_leaves

        rule = functools.partial(self._flat_rule, static, in_tree, trees)
        if config.jax_disable_jit and not any(isinstance(x, Tracer) for x in leaves):
            return self.fun(*_merge(static, dynamic))
        outs = CustomJVPCall(name, flat, rule, self.symbolic_zeros).bind(*leaves)
        return tree.tree_unflatten(trees["out"], outs)

    def _flat_rule(self, static: dict[int, Any], in_tree: Any, trees: dict[str, Any], *xs: Any) -> list[Any]:
        half = len(xs) // 2
        primals = tree.tree_unflatten(in_tree, xs[:half])
        as_seen = [SymbolicZero(t.aval) if type(t) is Zero else t for t in xs[half:]]
        tangents = tree.tree_unflatten(in_tree, as_seen)
        name = function_name(self.jvp)
        pair = self.jvp(*static.values(), primals, tangents)  # type: ignore[misc]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"Custom JVP rule {name} for function {function_name(self.fun)} must produce a pair (list or tuple of "
                f"length two) representing primal and tangent outputs, but got {pair}."
            )
        outs, out_tree = tree.tree_flatten(pair[0])
        out_tangents, tangent_tree = tree.tree_flatten(pair[1])
        if out_tree != tangent_tree:
            raise TypeError(
                f"Custom JVP rule {name} for function {function_name(self.fun)} must produce primal and tangent "
                "outputs "
                f"with equal container (pytree) structures, but got {out_tree} and {tangent_tree} respectively."
            )
        _check_primal_output(f"Custom JVP rule {name}", "jvp", function_name(self.fun), trees, outs, out_tree)
        trees["out"] = out_tree
        return [*outs, *(self._checked(name, p, t) for p, t in zip(outs, out_tangents))]

    def _checked(self, name: str, primal: Any, tangent: Any) -> Any:
        if isinstance(tangent, SymbolicZero):
            return Zero(tangent.aval)
        expected = aval_of(primal).to_tangent_aval()
        given: Any = tangent.aval if type(tangent) is Zero else aval_of(tangent)
        if given.shape != expected.shape or given.dtype != expected.dtype:
            raise TypeError(
                "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes. "
                f"Expected {_type(expected)} (tangent type of {_type(aval_of(primal))}) but got {_type(given)}. "
                f"The rule is {name}, of function {function_name(self.fun)}."
            )
        return Zero(expected) if expected.dtype == dtypes.float0 else _converted(tangent, expected)


def _type(aval: Any) -> str:
    return str(aval.str_short(short_dtypes=False))


def _converted(x: Any, aval: Any) -> Any:
    """The value in the dtype of the aval."""
    if aval_of(x).dtype == aval.dtype:
        return x

    return convert_element_type(x, aval.dtype)


_PRIMAL_OUTPUT = {
    "jvp": "(equal in value to the output of the custom_jvp-decorated function {name}, and in particular {alike}), but "
    "instead the JVP rule",
    "vjp": "(equal to the output of the custom_vjp-decorated function {name}) and the second element represents "
    "residuals (i.e. values stored from the forward pass for use on the backward pass), but instead the fwd rule",
}


def _check_primal_output(
    where: str, kind: str, name: str, trees: dict[str, Any], outs: Sequence[Any], out_tree: Any
) -> None:
    """Raise TypeError where a rule's output is not like that of the function, if this has run."""
    if "avals" not in trees:
        return
    given = list(map(aval_of, outs))
    same_tree = out_tree == trees["out"]
    if same_tree and all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(given, trees["avals"])):
        return
    what, alike = ("shapes/dtypes of", "with leaves of the same shape/dtype") if same_tree else (
        "container/pytree structure",
        "of the same container/pytree structure",
    )  # fmt: skip
    text = lambda treedef, avals: str(tree.tree_unflatten(treedef, list(map(_type, avals)))).replace("'", "")
    raise TypeError(
        f"{where} for function {name} must produce a pair (list or tuple of length two) where the first element "
        f"represents the primal output {_PRIMAL_OUTPUT[kind].format(name=name, alike=alike)} output's first element "
        f"had {what}:\n    {text(out_tree, given)}\n"
        f"while the custom_{kind}-decorated function {name} had output {what}:\n"
        f"    {text(trees['out'], trees['avals'])}."
    )


class custom_vjp(Decorated):  # noqa: N801 (a decorator)
    """Give a function a reverse-mode derivative rule.

    Args:
        fun: the function.
        nondiff_argnums: positions of arguments that are not differentiated: passed to `fwd` at their places, and to
            `bwd` before everything else.
        nondiff_argnames: names of such arguments.

    The rule is set with `defvjp(fwd, bwd)`: `fwd(*args) -> (output, residuals)`, `bwd(residuals, cotangent) -> tuple of
    cotangents`, one for each argument (None for zero).

    >>> import veery, veery.numpy as jnp
    >>> @veery.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))
    >>> float(veery.grad(lambda x: 10 * clipped(x))(1.0))
    1.0
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        wraps(fun)(self)
        self.fun = fun
        self.nondiff_argnums = _positions(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rule.

        Args:
            fwd: from the arguments to (output, residuals).
            bwd: from residuals and the output's cotangent to a tuple of cotangents.
            symbolic_zeros: whether fwd takes CustomVJPPrimal objects (value, perturbed) in place of arrays, and bwd
                takes SymbolicZero for cotangents that are zero.
            optimize_remat: accepted for compatibility.
        """
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError("remat optimization for custom_vjp does not support symbolic zeros")
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    @source.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name} using defvjp.")
        static, dynamic = _split(resolve_kwargs("custom_vjp", self.fun, args, kwargs), self.nondiff_argnums)
        _check_for_tracers(static)
        leaves, in_tree = tree.tree_flatten(dynamic)
        _check_leaves(name, leaves)
        trees: dict[str, Any] = {}

        def flat(*xs: Any) -> list[Any]:
            out = self.fun(*_merge(static, tree.tree_unflatten(in_tree, xs)))
            out_leaves, trees["out"] = tree.tree_flatten(out)
            trees["avals"] = list(map(aval_of, out_leaves))
            return out_leaves

        if config.jax_disable_jit and not any(isinstance(x, Tracer) for x in leaves):
            return self.fun(*_merge(static, dynamic))
        avals = [aval_of(x) for x in leaves]
        call = CustomVJPCall(
            name,
            flat,
            functools.partial(self._flat_fwd, static, in_tree, avals, trees),
            lambda: trees["out"].num_leaves,
            self.symbolic_zeros,
        )
        outs = call.bind(*leaves)
        return tree.tree_unflatten(trees["out"], outs)

    def _flat_fwd(
        self,
        static: dict[int, Any],
        in_tree: Any,
        avals: Sequence[Any],
        trees: dict[str, Any],
        *xs: Any,
        perturbed: Sequence[bool],
    ) -> tuple[list[Any], Callable[..., list[Any]]]:
        # Rules read x.shape and x.dtype, which a float has not: grad(f)(2.0) calls them too.
        xs = tuple([_dispatch.as_array(x) if isinstance(x, (bool, int, float, complex)) else x for x in xs])
        if self.symbolic_zeros:
            xs = tuple(map(CustomVJPPrimal, xs, perturbed))
        pair = self.fwd(*_merge(static, tree.tree_unflatten(in_tree, xs)))  # type: ignore[misc]
        where, name = f"Custom VJP fwd rule {function_name(self.fwd)}", function_name(self.fun)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"{where} for function {name} must produce a pair (list or tuple of length two) where the first "
                f"element represents the primal output (equal to those of the custom_vjp-decorated function {name}) "
                "and the second element represents residuals (i.e. values stored from the forward pass for use on the "
                f"backward pass), but instead of a pair the fwd rule {function_name(self.fwd)} produced {pair}."
            )
        outs, out_tree = tree.tree_flatten(pair[0])
        _check_primal_output(where, "vjp", name, trees, outs, out_tree)
        trees["out"] = out_tree
        residuals, residual_tree = tree.tree_flatten(pair[1])

        def bwd(*xs: Any) -> list[Any]:
            n = residual_tree.num_leaves
            as_seen = [SymbolicZero(ct.aval) if type(ct) is Zero else ct for ct in xs[n:]]
            kept, cotangent = tree.tree_unflatten(residual_tree, xs[:n]), tree.tree_unflatten(out_tree, as_seen)
            cts = self.bwd(*static.values(), kept, cotangent)  # type: ignore[misc]
            return self._flat_cotangents(cts, in_tree, avals)

        return [*outs, *residuals], bwd

    def _flat_cotangents(self, cts: Any, in_tree: Any, avals: Sequence[Any]) -> list[Any]:
        if isinstance(cts, list):
            cts = tuple(cts)
        missing = object()
        wrapped = tree.tree_map(lambda x: missing if x is None else x, cts, is_leaf=lambda x: x is None)
        try:
            if not isinstance(cts, tuple):
                raise ValueError("not a tuple")
            flat = tree.broadcast_prefix(wrapped, tree.tree_unflatten(in_tree, list(avals)))
        except ValueError:
            raise TypeError(
                "Custom VJP bwd rule must produce an output with the same container (pytree) structure as the args "
                "tuple of the primal function, and in particular must produce a tuple of length equal to the number of "
                f"arguments to the primal function, but got bwd output structure {tree.tree_structure(cts)} for primal "
                f"input structure {in_tree}."
            ) from None
        paths = [path for path, _ in tree.tree_flatten_with_path(tree.tree_unflatten(in_tree, list(avals)))[0]]
        return [
            _checked_cotangent(None if ct is missing else ct, aval, tree_registry.keystr(path))
            for ct, aval, path in zip(flat, avals, paths)
        ]


def _checked_cotangent(ct: Any, aval: Any, path: str) -> Any:
    """A cotangent that a bwd rule gave for an input of type `aval`; None for zero."""
    expected = aval.to_tangent_aval()
    if ct is None or expected.dtype == dtypes.float0:
        return None
    zero = isinstance(ct, SymbolicZero)
    instead = " Consider just returning a None here instead of a SymbolicZero object." if zero else ""
    given = ct.aval if zero else aval_of(ct)
    # of another precision it is converted; the imaginary part of a complex one would be lost
    complex_for_real = given.dtype.kind == "c" and expected.dtype.kind != "c"
    fits = given.shape == expected.shape and (
        given.dtype == expected.dtype
        or (given.weak_type or dtypes.issubdtype(given.dtype, np.inexact))
        and not complex_for_real
    )
    if not fits:
        what = "a SymbolicZero" if zero else "an output"
        differ = "the shapes do not match" if given.shape != expected.shape else "the dtypes do not match"
        raise ValueError(
            "Custom VJP bwd rule must produce an output with the same type as the args tuple of the primal function, "
            f"but at output{path} the bwd rule produced {what} of type {given.str_short()} corresponding to an input "
            f"of type {aval.str_short()}, so {differ}.{instead}"
        )
    # but not to a float of a byte and less, where most of it would be lost: what was converted takes it as it is
    narrow = expected.dtype.itemsize == 1 and dtypes.issubdtype(expected.dtype, np.inexact) and not given.weak_type
    return None if zero else ct if narrow else _converted(ct, expected)


def _check_for_tracers(static: dict[int, Any]) -> None:
    if any(isinstance(leaf, Tracer) for x in static.values() for leaf in tree.tree_leaves(x)):
        raise UnexpectedTracerError(
            "Found a JAX Tracer object passed as an argument to a custom_vjp function in a position indicated by "
            "nondiff_argnums as non-differentiable. Tracers cannot be passed as non-differentiable arguments to "
            "custom_vjp functions; instead, nondiff_argnums should only be used for arguments that can't be or contain "
            "JAX tracers, e.g. function-valued arguments. In particular, array-valued arguments should typically not "
            "be indicated as nondiff_argnums."
        )


class CustomVJPPrimal:
    """An argument of a fwd rule with `symbolic_zeros=True`: its value, and whether it is differentiated."""

    def __init__(self, value: Any, perturbed: bool):
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The arguments of a fwd rule with `symbolic_zeros=True` as plain values.

    Raises:
        TypeError: a leaf is no CustomVJPPrimal.
    """

    def value(leaf: Any) -> Any:
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(f"unexpected leaf type {type(leaf)}")
        return leaf.value

    return tree_map(value, tree)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Define a function and its vjp at once: `fun(*args) -> (output, vjp)`, with `vjp(cotangent) -> cotangents`.

    Args:
        fun: returns the output and a function from its cotangent to those of the arguments (a single one if there is
            a single argument, else a tuple).

    >>> import veery
    >>> @veery.custom_gradient
    ... def halved(x):
    ...     return x * x, lambda g: (g * x,)
    >>> float(veery.grad(halved)(3.0))
    3.0
    """

    @custom_vjp
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)[0]

    def fwd(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        out, rule = fun(*args, **kwargs)
        leaves, out_tree = tree.tree_flatten(out)
        rule_tree: Any = None

        def flat(*cts: Any) -> list[Any]:
            nonlocal rule_tree
            results = rule(tree.tree_unflatten(out_tree, cts))
            flat_results, rule_tree = tree.tree_flatten(results)
            return flat_results

        closed, consts = close_over(stage(flat, [aval_of(x).to_tangent_aval() for x in leaves]))
        return out, Partial(functools.partial(_apply_closed, closed, lambda: rule_tree), consts)

    def bwd(rule: Any, ct: Any) -> tuple[Any, ...]:
        result = rule(ct)
        return result if isinstance(result, tuple) else (result,)

    wrapped.defvjp(fwd, bwd)
    return functools.wraps(fun)(wrapped)


def _apply_closed(closed: Any, out_tree: Callable[[], Any], consts: Sequence[Any], ct: Any) -> Any:
    return tree.tree_unflatten(out_tree(), eval_jaxpr(closed.jaxpr, (), *consts, *tree.tree_leaves(ct)))


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function that takes what `fun` closes over as arguments.

    Args:
        fun: a function that may close over arrays being differentiated.
        *example_args: arguments that give the types.

    Returns:
        (converted, values): `converted(*args, *values)` is `fun(*args)`.

    >>> import veery
    >>> converted, values = veery.closure_convert(lambda x: x + 1.0, 2.0)
    >>> float(converted(3.0, *values))
    4.0
    """
    leaves, in_tree = tree.tree_flatten(example_args)
    flat = FlatFunction(fun, in_tree)
    closed, consts = close_over(stage(flat, [aval_of(x) for x in leaves]))
    hoisted = [isinstance(c, Tracer) and dtypes.issubdtype(aval_of(c).dtype, np.inexact) for c in consts]

    def converted(*args_and_values: Any) -> Any:
        n = sum(hoisted)
        args = args_and_values[: len(args_and_values) - n]
        values = iter(args_and_values[len(args_and_values) - n :])
        all_consts = [next(values) if h else c for c, h in zip(consts, hoisted)]
        given, given_tree = tree.tree_flatten(args)
        if given_tree != in_tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree structure as the "
                f"example arguments passed when closure_convert was called. Expected {in_tree}, but got {given_tree}"
            )
        return tree.tree_unflatten(flat.out_tree, eval_jaxpr(closed.jaxpr, (), *all_consts, *given))

    return converted, [c for c, h in zip(consts, hoisted) if h]
