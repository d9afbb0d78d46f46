"""Derivatives of functions of pytrees."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.arguments import function_name, wraps
from veery._api.jit import jit
from veery._api.pullback import VJP as VJP, LinearMap, as_output, float0_zeros as float0_zeros, is_inexact, pullback
from veery._api.vectorize import vmap
from veery._core import dtypes, source, tree, widths
from veery._core.ad import UndefinedPrimal, Zero, zeros_like_aval
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.flat import FlatFunction
from veery._core.jaxpr import eval_jaxpr
from veery._core.memory import MemorySpace
from veery._core.refs import is_ref
from veery._core.trace import Tracer
from veery._core.tree_registry import Partial
from veery._transforms import explicit, jvp as forward, linearize as linearization
from veery._transforms.batching import batched_aval
from veery._transforms.staging import stage
from veery._transforms.transpose import backward_pass


def _check_arrays(leaves: Sequence[Any], what: str) -> None:
    for leaf in leaves:
        if maybe_aval_of(leaf) is None:
            raise TypeError(f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type in {what}")


# Forward mode.


@source.api_boundary
def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """A function's value and its directional derivative (forward mode).

    Args:
        fun: function of positional arguments.
        primals: tuple of the arguments at which to differentiate.
        tangents: tuple of tangents, of the same tree, shapes and dtypes (float0 for integer arguments).
        has_aux: whether fun returns a pair, of which only the first is differentiated.

    Returns:
        (value, tangent), or (value, tangent, aux).

    Raises:
        TypeError: primals and tangents do not match.

    >>> import veery, veery.numpy as jnp
    >>> y, dy = veery.jvp(jnp.sin, (0.0,), (1.0,))
    >>> float(dy)
    1.0
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"primal and tangent arguments to jax.jvp must be tuples or lists; found {type(primals).__name__} and "
            f"{type(tangents).__name__}."
        )
    flat_primals, primal_tree = tree.tree_flatten(primals)
    flat_tangents, tangent_tree = tree.tree_flatten(tangents)
    if primal_tree != tangent_tree:
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals have tree structure "
            f"{primal_tree} whereas tangents have tree structure {tangent_tree}."
        )
    in_tree = tree.tree_structure(tuple(primals))
    _check_arrays(flat_primals, "jvp")
    flat_tangents = [_checked_tangent(p, t, "jvp") for p, t in zip(flat_primals, flat_tangents)]
    flat = FlatFunction(fun, in_tree, has_aux)
    outs, out_tangents = forward.jvp(flat, flat_primals, flat_tangents)
    out_tree = flat.out_tree
    found = [_beside(y, t) for y, t in zip(outs, out_tangents)]
    results = tree.tree_unflatten(out_tree, outs), tree.tree_unflatten(out_tree, found)
    return (*results, _strip(flat.aux)) if has_aux else results


def _beside(out: Any, tangent: Any) -> Any:
    """The tangent of an output as the user sees it: an array where that is one, a number where both were passed on."""
    if isinstance(out, (Tracer, ArrayImpl)) and type(tangent) is not Zero:
        aval: Any = aval_of(tangent)
        weak = getattr(aval_of(out), "weak_type", False)
        if not isinstance(tangent, (Tracer, ArrayImpl)) or getattr(aval, "weak_type", False) != weak:
            return lax.convert_element_type_p.bind(tangent, new_dtype=aval.dtype, weak_type=weak)
    return tangent if type(tangent) in (int, float, complex) else as_output(tangent)


def _strip(aux: Any) -> Any:
    """Auxiliary output as values: tracers of finished differentiations give their primals."""

    def primal(x: Any) -> Any:
        while isinstance(x, (forward.JVPTracer, linearization.GradTracer)) and not x._trace.alive:
            x = x.primal
        return x

    return tree.tree_map(primal, aux)


def _checked_tangent(primal: Any, tangent: Any, name: str) -> Any:
    if is_ref(primal) or is_ref(tangent):
        if aval_of(primal).to_tangent_aval() != aval_of(tangent):
            raise TypeError(
                f"primal and tangent arguments to jax.{name} do not match; the tangent of a reference is one. Got "
                f"{aval_of(primal)} and {aval_of(tangent)}."
            )
        return tangent
    expected = aval_of(primal).to_tangent_aval()
    dtype = np.asarray(tangent).dtype if isinstance(tangent, np.ndarray) else getattr(tangent, "dtype", None)
    given = ShapedArray(np.shape(tangent), dtypes.float0) if dtype == dtypes.float0 else aval_of(tangent)
    if given.dtype != expected.dtype:  # type: ignore[attr-defined]
        raise TypeError(
            f"primal and tangent arguments to jax.{name} do not match; dtypes must be equal, or in case of int/bool "
            f"primal dtype the tangent dtype must be float0. Got primal dtype {aval_of(primal).dtype} and so expected "
            f"tangent dtype {expected.dtype}, but got tangent dtype {given.dtype} instead."
        )
    if np.shape(primal) != np.shape(tangent):
        raise ValueError(
            f"jvp called with different primal and tangent shapes;Got primal shape {np.shape(primal)} and tangent "
            "shape "
            f"as {np.shape(tangent)}"
        )
    if expected.dtype == dtypes.float0:
        return Zero(expected)
    return tangent


@source.api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """A function's value and its derivative as a linear function, both from one evaluation.

    Args:
        fun: function of positional arguments.
        *primals: the point.
        has_aux: whether fun returns a pair, of which only the first is differentiated.

    Returns:
        (value, f_jvp), or (value, f_jvp, aux); f_jvp maps tangents to the output tangent.

    >>> import veery, veery.numpy as jnp
    >>> y, f_jvp = veery.linearize(jnp.sin, 0.0)
    >>> float(f_jvp(2.0))
    2.0
    """
    leaves, in_tree = tree.tree_flatten(primals)
    _check_arrays(leaves, "linearize")
    flat = FlatFunction(fun, in_tree, has_aux)
    split = linearization.linearize(flat, leaves, _inexact(leaves))
    out = tree.tree_unflatten(flat.out_tree, split.outs)
    kept = LinearMap(
        split.jaxpr,
        in_tree,
        flat.out_tree,
        tuple(map(aval_of, leaves)),
        tuple(map(aval_of, split.outs)),
        split.nonzeros_out,
    )
    f_jvp = Partial(functools.partial(_apply_linear, kept), split.jaxpr.consts)
    return (out, f_jvp, _strip(flat.aux)) if has_aux else (out, f_jvp)


def _inexact(leaves: Sequence[Any]) -> list[bool]:
    return [is_inexact(aval_of(x)) for x in leaves]


def _apply_linear(kept: LinearMap, residuals: Sequence[Any], *tangents: Any) -> Any:
    flat_tangents, given_tree = tree.tree_flatten(tangents)
    if given_tree != kept.in_tree:
        raise TypeError(
            f"linearized function called with tangents of tree structure {given_tree}; expected {kept.in_tree}"
        )
    for aval, t in zip(kept.in_avals, flat_tangents):
        expected = aval.to_tangent_aval()
        if np.shape(t) != aval.shape or aval_of(t).dtype != expected.dtype:
            raise ValueError(
                f"linearized function called on tangent values inconsistent with the original primal values: Got "
                f"tangent aval {aval_of(t)} for primal aval {aval} but expected {expected}."
            )
    nonzero = [t for t, nz in zip(flat_tangents, kept.nonzeros_in) if nz]
    outs = iter(eval_jaxpr(kept.jaxpr, residuals, *nonzero))
    results = [
        as_output(next(outs) if nz else Zero(a.to_tangent_aval())) for a, nz in zip(kept.out_avals, kept.nonzeros_out)
    ]
    return tree.tree_unflatten(kept.out_tree, results)


# Reverse mode.


@source.api_boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()) -> Any:
    """A function's value and its vector-Jacobian product (reverse mode).

    Args:
        fun: function of positional arguments.
        *primals: the point.
        has_aux: whether fun returns a pair, of which only the first is differentiated.
        reduce_axes: accepted for compatibility.

    Returns:
        (value, vjp_fun), or (value, vjp_fun, aux); vjp_fun maps a cotangent of the output to a tuple with a cotangent
        for each primal.

    >>> import veery, veery.numpy as jnp
    >>> y, vjp_fun = veery.vjp(jnp.multiply, 2.0, 3.0)
    >>> [float(ct) for ct in vjp_fun(1.0)]
    [3.0, 2.0]
    """
    leaves, in_tree = tree.tree_flatten(primals)
    _check_arrays(leaves, "vjp")
    if any(map(is_ref, leaves)):
        raise ValueError(
            f"{function_name(fun)} is differentiated in an array reference, whose cotangent would be one as well. "
            "Close over the reference, leave it out of argnums, or pass its value, ref[...]."
        )
    flat = FlatFunction(fun, in_tree, has_aux)
    split = linearization.linearize(flat, leaves, _inexact(leaves))
    out_tree = flat.out_tree
    out = tree.tree_unflatten(out_tree, split.outs)
    kept = LinearMap(
        split.jaxpr, in_tree, out_tree, tuple(map(aval_of, leaves)), tuple(map(aval_of, split.outs)), split.nonzeros_out
    )
    vjp_fun = pullback(kept, function_name(fun), leaves, split.jaxpr.consts)
    return (out, vjp_fun, _strip(flat.aux)) if has_aux else (out, vjp_fun)


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward pass of a function, as two functions that are each compiled once.

    Args:
        fun: function of positional arguments.
        argnums: position or positions of the arguments to differentiate in.
        has_aux: whether fun returns a pair, of which only the first is differentiated.
        jitted: whether the two are compiled, by `jit`.

    Returns:
        (fwd, bwd): `fwd(*args)` gives (value, residuals), or (value, residuals, aux), like `vjp`;
        `bwd(residuals, ct)` gives the cotangent of each argument in argnums.

    Raises:
        TypeError: fun is not callable, or argnums are no integers.

    >>> import veery, veery.numpy as jnp
    >>> fwd, bwd = veery.fwd_and_bwd(jnp.multiply, argnums=(0, 1))
    >>> y, residuals = fwd(2.0, 3.0)
    >>> [float(ct) for ct in bwd(residuals, 1.0)]
    [3.0, 2.0]
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")

    def fwd(*args: Any, **kwargs: Any) -> Any:
        positions = _argnums(argnums, args, fun)
        of_chosen = lambda *values: fun(*_replace(args, positions, values), **kwargs)
        return vjp(of_chosen, *(args[i] for i in positions), has_aux=has_aux)

    def bwd(f_vjp: Any, outgrad: Any) -> Any:
        cts = f_vjp(outgrad)
        return cts[0] if isinstance(argnums, (int, np.integer)) else cts

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()) -> Callable[..., Any]:
    """The transpose of a function that is linear.

    Args:
        fun: a linear function of positional arguments.
        *primals: arrays or ShapeDtypeStructs that give the types of the arguments.
        reduce_axes: accepted for compatibility.

    Returns:
        A function from a cotangent of the output to a tuple of cotangents of the arguments.

    >>> import veery
    >>> (ct,) = veery.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    >>> float(ct)
    6.0
    """
    leaves, in_tree = tree.tree_flatten(primals)
    avals = [ShapedArray(x.shape, x.dtype) if maybe_aval_of(x) is None else aval_of(x) for x in leaves]
    flat = FlatFunction(fun, in_tree)
    closed = stage(flat, avals)
    kinds = [{_linear_kind(a) for a in given} for given in (avals, closed.out_avals)]
    if avals and closed.out_avals and (kinds[0] != kinds[1] or len(kinds[0]) > 1 or None in kinds[0]):
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer -> integer "
            f"functions, but got {[a.dtype for a in avals]} -> {[a.dtype for a in closed.out_avals]}."
        )

    def transposed(ct: Any) -> Any:
        flat_cts, ct_tree = tree.tree_flatten(ct)
        if ct_tree != flat.out_tree:
            raise TypeError(
                f"cotangent tree does not match function output, expected {flat.out_tree} but got {ct_tree}"
            )
        for aval, c in zip(closed.out_avals, flat_cts):
            given = aval_of(c)
            if given.shape != aval.shape or given.dtype != aval.dtype:
                raise TypeError(f"cotangent type does not match function output, expected {aval} but got {given}")
        args = [UndefinedPrimal(a) for a in avals]
        cts = backward_pass(closed.jaxpr, closed.consts, args, flat_cts)
        return tree.tree_unflatten(in_tree, list(map(as_output, cts)))

    return Partial(transposed)


def _linear_kind(aval: Any) -> str | None:
    """Of which kind of numbers a linear function is; None for what it cannot be of."""
    if is_inexact(aval):
        return "inexact"
    return "integer" if dtypes.issubdtype(aval.dtype, np.integer) else None


# Gradients.


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., Any]:
    """A function that returns the value and the gradient of `fun`.

    Args:
        fun: a function with a scalar output (or a pair of it and auxiliary output).
        argnums: position or positions of the arguments to differentiate in; each may be a pytree.
        has_aux: whether fun returns a pair.
        holomorphic: whether fun is holomorphic; inputs and output are then complex.
        allow_int: whether integer arguments may be differentiated in; their gradients are float0.
        reduce_axes: accepted for compatibility.

    Returns:
        A function with the arguments of fun that returns (value, gradient), or ((value, aux), gradient).

    Raises:
        TypeError: the output is not a real scalar, or an argument is not real.

    >>> import veery
    >>> value, gradient = veery.value_and_grad(lambda x: x**2)(3.0)
    >>> float(value), float(gradient)
    (9.0, 6.0)
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")

    @wraps(fun)
    @source.api_boundary
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> Any:
        positions = _argnums(argnums, args, fun)
        chosen = tuple(args[i] for i in positions)
        for leaf in tree.tree_leaves(chosen):
            _check_gradient_input(leaf, holomorphic, allow_int, "grad")

        def of_chosen(*values: Any) -> Any:
            return fun(*_replace(args, positions, values), **kwargs)

        out, pullback, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        _check_scalar(out)
        _check_gradient_output(out, holomorphic, "grad")
        seed = np.ones((), aval_of(out).dtype)[()]
        with widths.keeping([aval_of(out)]):
            grads = pullback(_weakly(seed, out))
        gradient = grads if isinstance(argnums, (tuple, list)) else grads[0]
        return ((out, aux[0]) if has_aux else out), gradient

    return value_and_grad_fun


def _weakly(seed: Any, out: Any) -> Any:
    """The seed 1 with the weak type of the output."""
    if not getattr(aval_of(out), "weak_type", False):
        return seed
    return complex(1) if np.iscomplexobj(seed) else 1.0


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., Any]:
    """A function that returns the gradient of `fun`; arguments as for `value_and_grad`.

    Returns:
        A function with the arguments of fun that returns the gradient, or (gradient, aux).

    >>> import veery, veery.numpy as jnp
    >>> float(veery.grad(veery.grad(jnp.sin))(0.0))
    -0.0
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @wraps(fun)
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        out, gradient = both(*args, **kwargs)
        return (gradient, out[1]) if has_aux else gradient

    return grad_fun


def _argnums(argnums: Any, args: Sequence[Any], fun: Any) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    for n in numbers:
        if not isinstance(n, (int, np.integer)):
            raise TypeError(f"argnums must be an int or a sequence of ints, got {argnums!r}")
        if not -len(args) <= n < len(args):
            raise TypeError(
                f"differentiating with respect to argnums={argnums} requires at least {max(numbers) + 1} positional "
                f"arguments to be passed by the caller, but got only {len(args)} positional arguments."
            )
    return tuple(n % len(args) for n in numbers)


def _replace(args: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    replaced = list(args)
    for i, value in zip(positions, values):
        replaced[i] = value
    return replaced


def _check_gradient_input(x: Any, holomorphic: bool, allow_int: bool, name: str) -> None:
    aval: Any = maybe_aval_of(x)
    if aval is None:
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type")
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{name} with holomorphic=True requires inputs with complex dtype, but got {aval.dtype.name}."
            )
        return
    if dtypes.issubdtype(aval.dtype, dtypes.extended):
        raise TypeError(f"{name} with input element type {aval.dtype.name}")
    if name == "jacfwd":
        if not dtypes.issubdtype(aval.dtype, np.floating):
            raise TypeError(
                f"{name} requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got "
                f"{aval.dtype.name}. For holomorphic differentiation, pass holomorphic=True. For differentiation of "
                "non-holomorphic functions involving complex inputs or integer inputs, use jax.jvp directly."
            )
    elif not dtypes.issubdtype(aval.dtype, np.inexact) and not allow_int:
        raise TypeError(
            f"{name} requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got "
            f"{aval.dtype.name}. If you want to use Boolean- or integer-valued inputs, use vjp or set allow_int to "
            "True."
        )


def _check_gradient_output(x: Any, holomorphic: bool, name: str) -> None:
    dtype: Any = aval_of(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(f"{name} with holomorphic=True requires outputs with complex dtype, but got {dtype.name}.")
    elif dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
            f"{dtype.name}. For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use jax.vjp directly."
        )
    elif not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
            f"{dtype.name}. For differentiation of functions with integer outputs, use jax.vjp directly."
        )


def _check_scalar(x: Any) -> None:
    aval: Any = maybe_aval_of(x)
    message = "Gradient only defined for scalar-output functions. Output "
    if aval is None:
        raise TypeError(f"{message}was {x!r}.")
    if aval.shape != ():
        raise TypeError(f"{message}had shape: {aval.shape}.")
    if aval.memory_space is not MemorySpace.Device:
        raise ValueError(
            f"Gradient only defined for outputs in the memory of the device, got {aval}: return "
            "`jax.device_put(out, jax.memory.Space.Device)`."
        )


# Jacobians.


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun`, column by column (forward mode).

    Args:
        fun: function whose outputs and differentiated arguments may be pytrees.
        argnums: position or positions of the arguments to differentiate in.
        has_aux: whether fun returns a pair of output and auxiliary output.
        holomorphic: whether fun is holomorphic.

    Returns:
        A function with the arguments of fun; for an output of shape s and an argument of shape t the Jacobian has
        shape s + t.

    >>> import veery, veery.numpy as jnp
    >>> veery.jacfwd(lambda x: x**2)(jnp.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @wraps(fun)
    @source.api_boundary
    def jacfun(*args: Any, **kwargs: Any) -> Any:
        positions = _argnums(argnums, args, fun)
        chosen = tuple(args[i] for i in positions)
        for leaf in tree.tree_leaves(chosen):
            _check_gradient_input(leaf, holomorphic, False, "jacfwd")
        of_chosen = lambda *values: fun(*_replace(args, positions, values), **kwargs)
        push = lambda tangents: jvp(of_chosen, chosen, tangents, has_aux=has_aux)
        value, columns, *aux = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(_basis(chosen))
        for leaf in tree.tree_leaves(value):
            if holomorphic:
                _check_gradient_output(leaf, True, "jacfwd")
        jacobian = tree.tree_map(lambda y, c: _split_basis(_numbers(c, y), chosen, argnums, axis=-1), value, columns)
        return (jacobian, aux[0]) if has_aux else jacobian

    return jacfun


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun`, row by row (reverse mode); see `jacfwd`.

    >>> import veery, veery.numpy as jnp
    >>> veery.jacrev(lambda x: x.sum() * x)(jnp.array([1.0, 2.0])).tolist()
    [[4.0, 1.0], [2.0, 5.0]]
    """

    @wraps(fun)
    @source.api_boundary
    def jacfun(*args: Any, **kwargs: Any) -> Any:
        positions = _argnums(argnums, args, fun)
        chosen = tuple(args[i] for i in positions)
        for leaf in tree.tree_leaves(chosen):
            _check_gradient_input(leaf, holomorphic, allow_int, "jacrev")
        of_chosen = lambda *values: fun(*_replace(args, positions, values), **kwargs)
        value, pullback, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        for leaf in tree.tree_leaves(value):
            _check_gradient_output(leaf, holomorphic, "jacrev")
        rows = tree.tree_map(_numbers, vmap(pullback)(_basis(value)), chosen)
        rows = rows if isinstance(argnums, (tuple, list)) else rows[0]
        flat_rows, row_tree = tree.tree_flatten(rows)
        parts = [tree.tree_leaves(_split_basis(r, value, 0, axis=0, wrap=False)) for r in flat_rows]
        leaves, out_tree = tree.tree_flatten(value)
        by_output = [tree.tree_unflatten(row_tree, [part[i] for part in parts]) for i in range(len(leaves))]
        jacobian = tree.tree_unflatten(out_tree, by_output)
        return (jacobian, aux[0]) if has_aux else jacobian

    return jacfun


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns the Hessian of `fun`: forward over reverse mode; arguments as for `jacfwd`.

    >>> import veery, veery.numpy as jnp
    >>> veery.hessian(lambda x: (x**3).sum())(jnp.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def _basis(pytree: Any) -> Any:
    """The standard basis of a pytree of arrays: each leaf gets a leading dimension over all elements of all leaves."""
    leaves, treedef = tree.tree_flatten(pytree)
    total = sum(math.prod(np.shape(x)) for x in leaves)
    offset, parts = 0, []
    for x in leaves:
        aval: Any = aval_of(x)
        shape = (total, aval.size)
        rows, columns = (lax.broadcasted_iota(np.int32, shape, d) for d in (0, 1))
        ones = lax.eq(rows, lax.add(columns, lax.convert_element_type(offset, np.int32)))
        dtype = aval.dtype if is_inexact(aval) else dtypes.default_float_dtype()
        numbers = lax.convert_element_type_p.bind(ones, new_dtype=dtype, weak_type=aval.weak_type)
        vectors = lax.reshape(numbers, (total, *aval.shape))
        parts.append(explicit.alike(vectors, batched_aval(aval, 0, total)))
        offset += aval.size
    return tree.tree_unflatten(treedef, parts)


def _numbers(lines: Any, value: Any) -> Any:
    """Columns or rows of a Jacobian; those of integers, whose tangents are float0, as zeros of their type."""
    if lines.dtype != dtypes.float0:
        return lines
    return zeros_like_aval(aval_of(value).update(shape=np.shape(lines)))


def _split_basis(x: Any, pytree: Any, argnums: Any, axis: int, wrap: bool = True) -> Any:
    """Split the basis axis of one array into the leaves of the pytree, each axis reshaped to the leaf's shape."""
    leaves, treedef = tree.tree_flatten(pytree)
    axis = axis % x.ndim
    parts, start = [], 0
    for leaf in leaves:
        size = math.prod(np.shape(leaf))
        piece = lax.slice_in_dim(x, start, start + size, axis=axis)
        shape = (*x.shape[:axis], *np.shape(leaf), *x.shape[axis + 1 :])
        parts.append(lax.reshape(piece, shape))
        start += size
    result = tree.tree_unflatten(treedef, parts)
    if not wrap:
        return result
    return result if isinstance(argnums, (tuple, list)) else result[0]
