"""Functions that say how they are divided among devices. No partitioner asks them: they run as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from veery._api.arguments import function_name, wraps
from veery._api.custom_derivatives import resolve_kwargs
from veery._api.jit import JitOptions, check_outputs, debug_info
from veery._core import source, tree
from veery._core.avals import aval_of
from veery._transforms.staging import close_over, stage
from veery.lax._custom_partitioning import custom_partitioning_p as custom_partitioning_p

BATCHING = "…"  # any number of leading dimensions


class custom_partitioning:  # noqa: N801  JAX's name
    """A function with rules for a partitioner, which `def_partition` gives. Here it runs as it is.

    Args:
        fun: the function.
        static_argnums: positions of arguments that are Python values.

    It has no derivative and no batching rule of its own, as in JAX: wrap it in `custom_vjp` or `custom_vmap`.

    >>> import veery.numpy as jnp
    >>> @custom_partitioning
    ... def twice(x):
    ...     return 2 * x
    >>> rules = twice.def_partition(partition=lambda mesh, args, result: None, sharding_rule="i -> i")
    >>> twice(jnp.ones(2)).tolist()
    [2.0, 2.0]
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: int | Sequence[int] = ()):
        wraps(fun)(self)
        self.fun = fun
        self.static_argnums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.sharding_rule: Any = None

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        **factor_sizes: int,
    ) -> Callable[..., Any]:
        """Give the rules for a partitioner; they are checked and kept.

        Args:
            partition: from mesh, argument and result shapes to mesh, a function of parts, and shardings.
            infer_sharding_from_operands: the result's shardings.
            propagate_user_sharding: the operands' shardings.
            decode_shardings: whether rules see NamedShardings.
            sharding_rule: which dimensions belong together: a text such as "i j, j k -> i k", an SdyShardingRule, or a
                function that makes one.
            reduction_factors, need_replication_factors, permutation_factors: names in the text.
            **factor_sizes: sizes of names in compound factors.

        Returns:
            `partition`.

        Raises:
            ValueError: the text cannot be read.
        """
        if isinstance(sharding_rule, str):
            named = dict(
                reduction_factors=tuple(reduction_factors),
                need_replication_factors=tuple(need_replication_factors),
                permutation_factors=tuple(permutation_factors),
            )
            sharding_rule = _rule_of_text(sharding_rule, named, factor_sizes)
        self.partition = partition
        self.sharding_rule = sharding_rule
        return partition

    @source.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the function.

        Raises:
            AttributeError: `def_partition` was not called.
        """
        if self.partition is None:
            raise AttributeError(
                f"custom_partitioning of {function_name(self.fun)}: call def_partition(...) before the function"
            )
        args = resolve_kwargs("custom_partitioning", self.fun, args, kwargs)
        static = {i % len(args): args[i] for i in self.static_argnums}
        leaves, in_tree = tree.tree_flatten([x for i, x in enumerate(args) if i not in static])
        out_tree: Any = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            rest = iter(tree.tree_unflatten(in_tree, xs))
            out = self.fun(*(static[i] if i in static else next(rest) for i in range(len(args))))
            found, out_tree = tree.tree_flatten(out)
            check_outputs(found, out, self.fun)
            return found

        info = debug_info(self.fun, args, {}, JitOptions(static_argnums=tuple(static)))
        call, consts = close_over(stage(flat, [aval_of(x) for x in leaves], info))
        outs = custom_partitioning_p.bind(
            *consts, *leaves, call=call, name=function_name(self.fun), rule=self.sharding_rule
        )
        return tree.tree_unflatten(out_tree, outs)


# Rules as values.


class CompoundFactor(tuple[str, ...]):
    """Several factors of which one dimension consists.

    >>> CompoundFactor("i", "j")
    ('i', 'j')
    """

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        for factor in factors:
            _check_factor(factor)
        return super().__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """The factors of an array's dimensions.

    >>> ArrayMapping("i", CompoundFactor("j", "k"))
    ('i', ('j', 'k'))
    """

    def __new__(cls, *dim_mappings: Any) -> ArrayMapping:
        for i, factor in enumerate(dim_mappings):
            if not isinstance(factor, (str, CompoundFactor)):
                raise ValueError(
                    f"Each element of ArrayMapping must be a str or CompoundFactor, but got {type(factor)}"
                )
            if isinstance(factor, str) and factor.startswith(BATCHING):
                if i:
                    raise ValueError("Ellipsis can only be used at the beginning of a dimension")
            elif isinstance(factor, str):
                _check_factor(factor)
        return super().__new__(cls, dim_mappings)


def _check_factor(factor: Any) -> None:
    if not isinstance(factor, str) or not re.fullmatch(r"[A-Za-z]\w*", factor):
        raise ValueError(f"Factor names have to start with a letter and contain letters, digits and _, got {factor!r}")


class SdyShardingRule:
    """Which dimensions of operands and results belong together.

    Args:
        operand_mappings: an ArrayMapping for each operand.
        result_mappings: an ArrayMapping for each result.
        reduction_factors, need_replication_factors, permutation_factors: names of factors.
        **factor_sizes: sizes of factors in compound ones.

    Raises:
        TypeError: a mapping is none.
        ValueError: a factor is named that no mapping has.
    """

    def __init__(
        self,
        operand_mappings: tuple[ArrayMapping, ...],
        result_mappings: tuple[ArrayMapping, ...],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ):
        mappings = (*operand_mappings, *result_mappings)
        if not all(isinstance(each, ArrayMapping) for each in mappings):
            raise TypeError("operand_mappings and result_mappings must be tuples of ArrayMapping")
        known = {f for each in mappings for dim in each for f in (dim if isinstance(dim, tuple) else (dim,))}
        special = (*reduction_factors, *need_replication_factors, *permutation_factors)
        for name in (*special, *factor_sizes):
            if name not in known:
                raise ValueError(f"Factor {name} is not used in the rule")
        self.operand_mappings = tuple(operand_mappings)
        self.result_mappings = tuple(result_mappings)
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        self.factor_sizes = factor_sizes


def _rule_of_text(text: str, named: dict[str, tuple[str, ...]], sizes: dict[str, int]) -> SdyShardingRule:
    sides = text.replace("...", BATCHING).split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: '{text}'")
    operands, results = (tuple(map(_mapping_of_text, side.split(","))) for side in sides)
    return SdyShardingRule(operands, results, **named, **sizes)  # type: ignore[arg-type]


def _mapping_of_text(text: str) -> ArrayMapping:
    found = re.findall(r"\(([^()]*)\)|([^\s()]+)", text)
    if text.count("(") != text.count(")"):
        raise ValueError(f"Brackets are not balanced in rule: '{text.strip()}'")
    return ArrayMapping(*(CompoundFactor(*group.split()) if group else name for group, name in found))
