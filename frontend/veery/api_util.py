"""Functions of pytrees as functions of flat arguments, and what follows from the numbers of arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from veery._api.inspection import typeof
from veery._core import source, tree
from veery._core.jaxpr import DebugInfo
from veery._core.tree import PyTreeDef, flatten_axes as _flatten_axes
from veery.extend import linear_util as lu


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Callable[[], tuple[str, ...]] | None = None,
    sourceinfo: str | None = None,
    signature: Any = None,
) -> DebugInfo:
    """What a jaxpr should remember of a function: what it is traced for, its name and place."""
    place = source.of_function(fun)
    name = getattr(fun, "__name__", type(fun).__name__)
    return DebugInfo(name, place.file, place.line, traced_for=traced_for)


@lu.transformation_with_aux2
def flatten_fun(f: Callable[..., Any], store: Any, in_tree: PyTreeDef, *args_flat: Any) -> list[Any]:
    """A function of the leaves of its positional and keyword arguments, and what gives the structure of its result.

    >>> import veery
    >>> leaves, structure = veery.tree.flatten(((1, 2), {"scale": 10}))
    >>> flat, out_tree = flatten_fun(lu.wrap_init(lambda x, y, scale: {"sum": scale * (x + y)}), structure)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([30], PyTreeDef({'sum': *}))
    """
    args, kwargs = in_tree.unflatten(args_flat)
    leaves, out_tree = tree.tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return leaves


@lu.transformation_with_aux2
def flatten_fun_nokwargs(f: Callable[..., Any], store: Any, in_tree: PyTreeDef, *args_flat: Any) -> list[Any]:
    """Like `flatten_fun`, for positional arguments alone."""
    leaves, out_tree = tree.tree_flatten(f(*in_tree.unflatten(args_flat)))
    store.store(out_tree)
    return leaves


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """One axis for each leaf of a tree, from axes for its upper parts.

    Args:
        name: what to call the axes in messages.
        treedef: the structure of the tree.
        axis_tree: axes, a prefix of it.
        kws: whether the tree is of positional and of keyword arguments, whose leaves have axis 0.
        tupled_args: whether it is the tuple of all positional arguments.

    Raises:
        ValueError: the axes are no prefix.

    >>> import veery
    >>> flatten_axes("axes", veery.tree.structure(((1, 2), 3)), (0, None))
    [0, 0, None]
    """
    return _flatten_axes(name, treedef, (axis_tree, 0) if kws else axis_tree, tupled_args=tupled_args)


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """A list of what `f` gives for the elements of sequences, which must be of one length."""
    return [f(*elements) for elements in zip(*args, strict=True)]


def shaped_abstractify(x: Any) -> Any:
    """The type of an array, a number, or of what has a shape and a dtype."""
    return typeof(x)


def argnums_partial(
    f: lu.WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[lu.WrappedFun, tuple[Any, ...]]:
    """A function of some of its arguments, the others being given.

    Args:
        f: the function.
        dyn_argnums: places of the arguments that are left.
        args: all arguments.
        require_static_args_hashable: whether the given ones must be hashable, for caches to know them by.

    Returns:
        The function, and the arguments that are left.

    Raises:
        ValueError: a given argument cannot be hashed.
    """
    numbers = (dyn_argnums,) if isinstance(dyn_argnums, int) else dyn_argnums
    dynamic = {i % len(args) for i in numbers}
    given = [None if i in dynamic else _Given(x) for i, x in enumerate(args)]
    if require_static_args_hashable:
        for x in given:
            if x is not None and not isinstance(x.value, Hashable):
                raise ValueError(
                    f"Non-hashable static arguments are used in a jit function: {x.value!r} of type {type(x.value)}. "
                    "Give it as an array, or as an object with __hash__ and __eq__."
                )
    return _with_given(f, tuple(given)), tuple(x for i, x in enumerate(args) if i in dynamic)


class _Given:
    """An argument, compared by its value where it can be hashed, else by identity."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value) if isinstance(self.value, Hashable) else id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Given):
            return False
        same = self.value is other.value
        return same or (isinstance(self.value, Hashable) and bool(self.value == other.value))


@lu.transformation2
def _with_given(f: Callable[..., Any], given: tuple[_Given | None, ...], *args: Any, **kwargs: Any) -> Any:
    left = iter(args)
    return f(*(next(left) if x is None else x.value for x in given), **kwargs)


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: PyTreeDef, kws: bool = True
) -> tuple[bool, ...]:
    """Which leaves of arguments are donated.

    Args:
        donate_argnums: places of positional arguments.
        donate_argnames: names of keyword arguments.
        in_tree: the structure of (args, kwargs), or of args alone.
        kws: whether it has kwargs.

    >>> import veery
    >>> donation_vector((1,), ("scale",), veery.tree.structure(((1, (2, 3)), {"scale": 4})))
    (False, True, True, True)
    """
    numbered = in_tree.unflatten(range(in_tree.num_leaves))
    args, kwargs = numbered if kws else (numbered, {})
    flags = [i in donate_argnums for i, x in enumerate(args) for _ in tree.tree_leaves(x)]
    flags += [name in donate_argnames for name in sorted(kwargs) for _ in tree.tree_leaves(kwargs[name])]
    return tuple(flags)


def rebase_donate_argnums(donate_argnums: Iterable[int], static_argnums: Iterable[int]) -> tuple[int, ...]:
    """Places of donated arguments among those that are not static.

    Raises:
        ValueError: a donated argument is static.

    >>> rebase_donate_argnums((3, 4), (0, 1))
    (1, 2)
    """
    static = sorted(set(static_argnums))
    both = set(static) & set(donate_argnums)
    if both:
        raise ValueError(f"arguments cannot be static and donated at once: {sorted(both)}")
    return tuple(i - sum(s < i for s in static) for i in sorted(set(donate_argnums)))
