"""`custom_vmap`: functions with batching rules of the user's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from veery._api.arguments import function_name, wraps
from veery._api.custom_derivatives import Decorated, resolve_kwargs
from veery._core import source, tree
from veery._core.avals import aval_of
from veery._core.jaxpr import DebugInfo
from veery._transforms import staging
from veery._transforms.custom_rules import Rule
from veery.lax import map as lax_map
from veery.lax._custom_vmap import custom_vmap_p


class custom_vmap(Decorated):  # noqa: N801 (a decorator)
    """Give a function a batching rule.

    Args:
        fun: the function.

    The rule is set with `def_vmap`. Reverse mode needs a `custom_vjp` around the function.

    >>> import veery, veery.numpy as jnp
    >>> @veery.custom_batching.custom_vmap
    ... def f(x, y):
    ...     return x + y
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, xs, ys):
    ...     return xs * ys, True
    >>> veery.vmap(f)(jnp.arange(3), jnp.arange(1, 4)).tolist()
    [0, 2, 6]
    """

    def __init__(self, fun: Callable[..., Any]):
        wraps(fun)(self)
        self.fun = fun
        self.vmap_rule: Callable[..., tuple[Any, Any]] | None = None

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        """Set the rule `(axis_size, in_batched, *args) -> (output, out_batched)`.

        Args:
            vmap_rule: takes the size of the mapped axis, a list of pytrees of bools that say which arguments are
                batched (along their leading axis), and the arguments; returns the output and a like pytree of bools.

        Returns:
            The rule.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    @source.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        args = resolve_kwargs("custom_vmap", self.fun, args, kwargs)
        if self.vmap_rule is None:
            raise AttributeError(f"No batching rule defined for custom_vmap function {name} using def_vmap.")
        leaves, in_tree = tree.tree_flatten(args)
        out_tree: Any = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            out_leaves, out_tree = tree.tree_flatten(self.fun(*tree.tree_unflatten(in_tree, xs)))
            return out_leaves

        closed = staging.stage(flat, [aval_of(x) for x in leaves], DebugInfo(name))
        call, consts = staging.close_over(closed)
        rule = functools.partial(_flat_rule, self.vmap_rule, name, len(consts), in_tree, out_tree)
        outs = custom_vmap_p.bind(*consts, *leaves, call=call, rule=Rule(rule, function_name(self.vmap_rule)))
        return tree.tree_unflatten(out_tree, outs)


def _flat_rule(
    rule: Callable[..., Any],
    name: str,
    n_consts: int,
    in_tree: Any,
    out_tree: Any,
    size: int,
    in_batched: Sequence[bool],
    *args: Any,
) -> tuple[list[Any], list[bool]]:
    if any(in_batched[:n_consts]):
        raise ValueError(
            f"custom_vmap function {name} closes over values that are batched, of which its rule does not know. Pass "
            "them to the function as arguments."
        )
    flags = tree.tree_unflatten(in_tree, list(in_batched[n_consts:]))
    result = rule(size, list(flags), *tree.tree_unflatten(in_tree, args[n_consts:]))
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(
            f"custom vmap rule ({function_name(rule)}) must return a pair of the output and which parts of it are "
            f"batched, but got {result}"
        )
    outs, tree1 = tree.tree_flatten(result[0])
    batched, tree2 = tree.tree_flatten(result[1])
    if tree1 != tree2:
        raise ValueError(
            "structure of output value and output batching specification returned by custom vmap rule "
            f"({function_name(rule)}) do not match.\nOutput values: {tree1}\nBatching spec: {tree2}"
        )
    if tree1 != out_tree:
        raise ValueError(
            f"structure of output returned by custom vmap rule ({function_name(rule)}) does not match that of original "
            f"custom-vmapped function.\nOriginal output: {out_tree}\nRule output: {tree1}"
        )
    return outs, batched


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function whose vmap is a loop over the batch (`lax.map`).

    Args:
        f: the function.

    >>> import veery, veery.numpy as jnp
    >>> veery.vmap(veery.custom_batching.sequential_vmap(lambda x: x + 1))(jnp.arange(2)).tolist()
    [1, 2]
    """
    mapped = custom_vmap(f)

    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, treedef = tree.tree_flatten(args)
        flags = tree.tree_leaves(in_batched)

        def one(rows: list[Any]) -> Any:
            given = iter(rows)
            return mapped(*tree.tree_unflatten(treedef, [next(given) if b else x for x, b in zip(leaves, flags)]))

        out = lax_map(one, [x for x, b in zip(leaves, flags) if b])
        return out, tree.tree_map(lambda _: True, out)

    mapped.def_vmap(rule)
    return mapped
