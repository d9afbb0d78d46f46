"""`sparsify`: functions written for dense arrays on sparse ones; and the operators of BCOO and BCSR, which are such.

The function is traced to a jaxpr for dense arrays of the same shapes, and each of its equations is applied to sparse
operands by a rule of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from veery import lax, numpy as jnp
from veery._api.inspection import make_jaxpr
from veery._api.shape_structs import ShapeDtypeStruct
from veery._core.absent import attributes as _attributes
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from veery._core.tree import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from veery.experimental.sparse import _bcoo as bcoo, _convolution, _indexing, _reshaping
from veery.experimental.sparse._base import JAXSparse
from veery.experimental.sparse._bcoo import BCOO
from veery.experimental.sparse.bcsr import BCSR
from veery.experimental.sparse.util import Array, per_axis

ArrayOrSparse = Any
is_sparse = lambda x: isinstance(x, JAXSparse)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function of dense arrays as one that takes and returns BCOO and BCSR arrays, too.

    Args:
        f: a function of arrays. What it is given by name is not traced, unless it has sparse arrays in it.
        use_tracer: accepted for compatibility.

    Raises:
        NotImplementedError: (of the returned function) an operation has no form for sparse operands, or one would make
            them dense. `sparse.todense` does that where it is wanted.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> sparse.sparsify(lambda x, y: jnp.sin(x).T @ y)(x, jnp.ones(2)).round(3).tolist()
    [0.14100000262260437, 0.9089999794960022]
    """

    @functools.wraps(f)
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        sparse = {name: x for name, x in kwargs.items() if any(map(is_sparse, tree_leaves(x, is_leaf=is_sparse)))}
        others = {name: x for name, x in kwargs.items() if name not in sparse}
        leaves, in_tree = tree_flatten((args, sparse), is_leaf=is_sparse)

        def flat(*dense: Any) -> Any:
            given, named = tree_unflatten(in_tree, dense)
            return f(*given, **named, **others)

        stand_ins = [ShapeDtypeStruct(x.shape, x.dtype) if is_sparse(x) else x for x in leaves]
        closed, shapes = make_jaxpr(flat, return_shape=True)(*stand_ins)
        operands = [_coordinates(x) for x in leaves]
        return tree_unflatten(tree_structure(shapes), _evaluated(closed, operands))

    return sparsified


def _coordinates(x: Any) -> Any:
    """A sparse operand as a BCOO, the form that the rules are for; BCSRs stay, for what keeps their places."""
    if isinstance(x, BCSR) or not is_sparse(x):
        return x
    if isinstance(x, BCOO):
        return x
    data, row, col = x.coordinates()
    return BCOO((data, jnp.stack([row, col], axis=-1)), shape=x.shape)


def _evaluated(closed: ClosedJaxpr, args: Sequence[ArrayOrSparse]) -> list[ArrayOrSparse]:
    """The results of a jaxpr whose arguments may be sparse."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
    known.update(zip(jaxpr.invars, args, strict=True))
    read = lambda atom: atom.val if type(atom) is Literal else known[atom]
    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _apply(eqn, [read(atom) for atom in eqn.invars]), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


_CALLEES = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "remat2": "jaxpr"}


def _apply(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    name, params = eqn.primitive.name, eqn.params
    if not any(map(is_sparse, operands)):
        out = eqn.primitive.bind(*operands, **params)
        return list(out) if eqn.primitive.multiple_results else [out]
    if name in _CALLEES:
        return _evaluated(params[_CALLEES[name]], operands)
    if name in _LOOPS:
        return _LOOPS[name](operands, **params)
    if name in _LINEAR or name in _ZERO_PRESERVING:
        (x,) = operands
        return [_elementwise(functools.partial(eqn.primitive.bind, **params), x, linear=name in _LINEAR)]
    if name == "integer_pow" and params["y"] > 0:
        return [_elementwise(lambda data: data ** params["y"], operands[0], linear=False)]
    rule = _RULES.get(name)
    if rule is None:
        dense = name in _ONE_AT_ZERO
        raise NotImplementedError(
            f"sparse rule for {name} is not implemented"
            + (" because it would result in dense output" if dense else "")
            + ". If this is your intent, use sparse.todense() to convert your arguments to dense matrices."
        )
    return [rule([x.to_bcoo() if isinstance(x, BCSR) else x for x in operands], eqn.outvars[0].aval, params)]


# Operations that keep zeros.

_LINEAR = {"neg", "real", "imag", "conj", "copy", "convert_element_type", "reduce_precision"}
_ZERO_PRESERVING = set(
    """
    abs asin asinh atan atanh bessel_i1e cbrt ceil erf erf_inv expm1 floor log1p round sign sin sinh sqrt square tan
    tanh
    """.split()
)
_ONE_AT_ZERO = set("cos cosh exp exp2 acos acosh logistic log rsqrt bessel_i0e erfc digamma".split())


def _elementwise(function: Callable[[Array], Array], x: Any, *, linear: bool) -> Any:
    if not linear and not x.unique_indices:
        x = x.sum_duplicates(nse=x.nse, remove_zeros=False)
    return replaced(x, function(x.data))


def replaced(x: Any, data: Array) -> Any:
    """The sparse array with other values in the same places."""
    (_, *rest), info = x.tree_flatten()
    return type(x).tree_unflatten(info, (data, *rest))


# Rules.


def _widened(x: Any, shape: tuple[int, ...]) -> Any:
    """A sparse operand in the shape of the result."""
    if not is_sparse(x) or x.shape == shape:
        return x
    dims = range(len(shape) - x.ndim, len(shape))
    return bcoo.bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(dims))


def _add(operands: Sequence[Any], out: Any, params: Any) -> Any:
    x, y = operands
    if is_sparse(x) and is_sparse(y):
        x, y = _widened(x, out.shape), _widened(y, out.shape)
        layout = {"n_batch": min(x.n_batch, y.n_batch), "n_dense": min(x.n_dense, y.n_dense), "on_inefficient": None}
        pairs = [bcoo.full_batch(bcoo.bcoo_update_layout(z, **layout)) for z in (x, y)]
        data, indices = (jnp.concatenate(parts, layout["n_batch"]) for parts in zip(*pairs))
        return BCOO((data, indices), shape=out.shape)
    mat, dense = (x, y) if is_sparse(x) else (y, x)
    if jnp.shape(dense) != out.shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the output shape is larger "
            "than Y.shape. This is to prevent silent densification of a large sparse array due to implicit "
            "broadcasting."
        )
    return bcoo.bcoo_todense(_widened(mat, out.shape)) + dense


def _sub(operands: Sequence[Any], out: Any, params: Any) -> Any:
    x, y = operands
    if is_sparse(x) and is_sparse(y):
        return _add([x, replaced(y, -y.data)], out, params)
    raise NotImplementedError("Subtraction between sparse and dense array.")


def _mul(operands: Sequence[Any], out: Any, params: Any) -> Any:
    x, y = operands
    if is_sparse(x) and is_sparse(y):
        return bcoo.bcoo_multiply_sparse(_widened(x, out.shape), _widened(y, out.shape))
    mat, dense = (x, y) if is_sparse(x) else (y, x)
    mat = _widened(mat, out.shape)
    return bcoo.with_data(mat, bcoo.bcoo_multiply_dense(mat, dense))


def _div(operands: Sequence[Any], out: Any, params: Any) -> Any:
    x, y = operands
    if is_sparse(y):
        raise NotImplementedError("division by a sparse array: its zeros would make the result dense")
    x = _widened(x, out.shape)
    if jnp.ndim(y):
        y = bcoo.bcoo_extract(x, jnp.broadcast_to(y, out.shape), assume_unique=True).data
        bound = per_axis(bcoo.sparse_shape(x), x.indices)
        beyond = (bcoo.full_batch(x)[1] >= bound).any(axis=-1)
        y = jnp.where(beyond.reshape(*beyond.shape, *[1] * x.n_dense), jnp.ones((), y.dtype), y)
    return bcoo.with_data(x, x.data / y)


def _reduce_sum(operands: Sequence[Any], out: Any, params: Any) -> Any:
    summed = bcoo.bcoo_reduce_sum(operands[0], axes=params["axes"])
    return summed if out.shape else bcoo.bcoo_todense(summed)


def _dynamic_slice(operands: Sequence[Any], out: Any, params: Any) -> Any:
    return _reshaping.bcoo_dynamic_slice(operands[0], operands[1:], out.shape)


def _gather(operands: Sequence[Any], out: Any, params: Any) -> Any:
    chosen = {name: params[name] for name in ("dimension_numbers", "slice_sizes", "mode")}
    if is_sparse(operands[1]):
        raise NotImplementedError("gather by sparse indices: use sparse.todense() for these")
    return _indexing.bcoo_gather(*operands, **chosen)


def _slice(operands: Sequence[Any], out: Any, params: Any) -> Any:
    limits = {name: params[name] for name in ("start_indices", "limit_indices", "strides")}
    return _reshaping.bcoo_slice(operands[0], **limits)


def _concatenate(operands: Sequence[Any], out: Any, params: Any) -> Any:
    if not all(map(is_sparse, operands)):
        raise NotImplementedError("concatenate of sparse and dense arrays: use sparse.todense() or BCOO.fromdense")
    return _reshaping.bcoo_concatenate(operands, dimension=params["dimension"])


def _dot_general(operands: Sequence[Any], out: Any, params: Any) -> Any:
    x, y = operands
    return bcoo.bcoo_dot_general(
        x, y, dimension_numbers=params["dimension_numbers"],
        preferred_element_type=params.get("preferred_element_type"),
    )  # fmt: skip


_RULES: dict[str, Callable[[Sequence[Any], Any, Any], Any]] = {
    "todense": lambda operands, out, params: operands[0].todense(),
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "reduce_sum": _reduce_sum,
    "conv_general_dilated": lambda xs, out, params: _convolution.of_equation(xs[0], xs[1], out, params),
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "rev": lambda xs, out, params: _reshaping.bcoo_rev(xs[0], params["dimensions"]),
    "slice": _slice,
    "concatenate": _concatenate,
    "dot_general": _dot_general,
    "transpose": lambda xs, out, params: bcoo.bcoo_transpose(xs[0], permutation=params["permutation"]),
    "reshape": lambda xs, out, params: _reshaping.bcoo_reshape(xs[0], new_sizes=out.shape),
    "squeeze": lambda xs, out, params: _reshaping.bcoo_squeeze(xs[0], dimensions=params["dimensions"]),
    "broadcast_in_dim": lambda xs, out, params: bcoo.bcoo_broadcast_in_dim(
        xs[0], shape=out.shape, broadcast_dimensions=params["broadcast_dimensions"]
    ),
}


# Loops and branches: sparse values are pytrees of arrays, of which no more is known than their places.


def _unmarked(x: Any) -> Any:
    if not is_sparse(x):
        return jnp.asarray(x)
    made = replaced(x, x.data)
    made.indices_sorted = made.unique_indices = False
    return made


def _while(operands: Sequence[Any], **params: Any) -> list[Any]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
    going = lambda carry: _evaluated(params["cond_jaxpr"], [*of_cond, *carry])[0]
    step = lambda carry: [*map(_unmarked, _evaluated(params["body_jaxpr"], [*of_body, *carry]))]
    return lax.while_loop(going, step, [*map(_unmarked, operands[n_cond + n_body :])])


def _scan(operands: Sequence[Any], **params: Any) -> list[Any]:
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, carry, xs = operands[:n_consts], operands[n_consts : n_consts + n_carry], operands[n_consts + n_carry :]
    if any(map(is_sparse, xs)):
        raise NotImplementedError("sparse rule for scan with x values that are sparse: carry them, or close over them.")

    def body(carry: Any, x: Any) -> Any:
        outs = _evaluated(params["jaxpr"], [*consts, *carry, *x])
        return [*map(_unmarked, outs[:n_carry])], outs[n_carry:]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    carry, ys = lax.scan(body, [*map(_unmarked, carry)], list(xs), **options)
    return [*carry, *ys]


def _cond(operands: Sequence[Any], *, branches: Sequence[ClosedJaxpr], **_: Any) -> list[Any]:
    index, *rest = operands
    taken = lambda branch: lambda xs: [*map(_unmarked, _evaluated(branch, xs))]
    return lax.switch(index, [taken(branch) for branch in branches], rest)


_LOOPS: dict[str, Callable[..., list[Any]]] = {"while": _while, "scan": _scan, "cond": _cond}


# The operators and methods of BCOO and BCSR.


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that applies a function of a dense array to a sparse one; what else it takes is no array."""
    return lambda self, *args, **kwargs: sparsify(lambda x: function(x, *args, **kwargs))(self)


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: sparsify(function)(self, other)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: sparsify(function)(other, self)


_METHODS: dict[str, Callable[..., Any]] = {
    "__neg__": _method(jnp.negative),
    "__pos__": _method(jnp.positive),
    "__abs__": _method(jnp.abs),
    "__pow__": _method(jnp.power),
    "astype": _method(lambda x, *args, **kwargs: x.astype(*args, **kwargs)),
    "reshape": _method(lambda x, *args, **kwargs: x.reshape(*args, **kwargs)),
    "sum": _method(jnp.sum),
    "__getitem__": lambda self, key: _indexing.getitem(self.to_bcoo() if isinstance(self, BCSR) else self, key),
    "__iter__": lambda self: (self[i] for i in range(self.shape[0])),
}
_BINARY: dict[str, Callable[..., Any]] = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "truediv": jnp.divide, "matmul": jnp.matmul,
}  # fmt: skip
for _name, _function in _BINARY.items():
    _METHODS[f"__{_name}__"] = _operator(_function)
    _METHODS[f"__r{_name}__"] = _reflected(_function)
for _name, _function in _METHODS.items():
    for _class in (BCOO, BCSR):
        setattr(_class, _name, _function)

__getattr__, __dir__ = _attributes(__name__)
