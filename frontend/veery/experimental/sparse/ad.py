"""Derivatives with respect to the values of sparse arrays: their places stay as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from veery import numpy as jnp
from veery._api import autodiff
from veery._core.absent import attributes as _attributes
from veery._core.tree import tree_flatten, tree_map, tree_unflatten
from veery.experimental.sparse.transform import is_sparse, replaced


def _of_values(fun: Callable[..., Any], argnums: int | Sequence[int], args: Sequence[Any], kwargs: Any) -> Any:
    """The function of the values of the chosen arguments, these values, and what makes arguments of values."""
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    nums = tuple(range(len(args))[i] for i in nums)
    leaves, tree = tree_flatten([args[i] for i in nums], is_leaf=is_sparse)

    def arguments(values: Sequence[Any], make: Callable[[Any, Any], Any] = replaced) -> list[Any]:
        return tree_unflatten(tree, [make(x, v) if is_sparse(x) else v for x, v in zip(leaves, values)])

    def of_values(values: Sequence[Any]) -> Any:
        given = list(args)
        for i, x in zip(nums, arguments(values)):
            given[i] = x
        return fun(*given, **kwargs)

    unpacked = lambda found: found[0] if isinstance(argnums, int) else tuple(found)
    return of_values, [x.data if is_sparse(x) else x for x in leaves], arguments, unpacked


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `veery.value_and_grad`, for arguments that may be sparse; the gradient of one is sparse, in the same places.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> value, gradient = sparse.value_and_grad(lambda x: ((x @ jnp.arange(2.0)) ** 2).sum())(x)
    >>> float(value), gradient.data.tolist()
    (4.0, [4.0, 0.0])
    """

    @functools.wraps(fun)
    def found(*args: Any, **named: Any) -> Any:
        of_values, values, arguments, unpacked = _of_values(fun, argnums, args, named)
        out, gradients = autodiff.value_and_grad(of_values, has_aux=has_aux, **kwargs)(values)
        return out, unpacked(arguments(gradients))

    return found


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `veery.grad`, for arguments that may be sparse; see `value_and_grad`."""
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @functools.wraps(fun)
    def found(*args: Any, **named: Any) -> Any:
        out, gradients = both(*args, **named)
        return (gradients, out[1]) if has_aux else gradients

    return found


def _jacobian(which: Callable[..., Any]) -> Callable[..., Any]:
    def jacobian(
        fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
    ) -> Callable[..., Any]:
        """As the function of `veery` of this name; that of a sparse array has the output's axes in its batch."""

        @functools.wraps(fun)
        def found(*args: Any, **named: Any) -> Any:
            of_values, values, arguments, unpacked = _of_values(fun, argnums, args, named)
            made = which(of_values, has_aux=has_aux, **kwargs)(values)
            jacobians, *aux = made if has_aux else (made,)
            is_row = lambda x: isinstance(x, list) and len(x) == len(values)
            rows = tree_map(lambda row: unpacked(arguments(row, _spread)), jacobians, is_leaf=is_row)
            return (rows, *aux) if has_aux else rows

        return found

    return jacobian


def _spread(x: Any, data: Any) -> Any:
    """The sparse array for each element of an output: with other values, in the same places."""
    front = data.shape[: data.ndim - x.data.ndim]
    (_, *places), info = x.tree_flatten()
    spread = [jnp.broadcast_to(p, (*front, *p.shape)) for p in places]
    return type(x).tree_unflatten({**info, "shape": (*front, *x.shape)}, (data, *spread))


jacfwd = _jacobian(autodiff.jacfwd)
jacrev = jacobian = _jacobian(autodiff.jacrev)

__getattr__, __dir__ = _attributes(__name__)
