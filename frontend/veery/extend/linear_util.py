"""Functions with a chain of transformations around them, which caches can compare.

A transformation is a function that takes the function inside, its own parameters and the arguments. Caches compare
chains by these and not by the closures that they become, so that one built twice is traced once.

>>> from veery.extend import linear_util as lu
>>> @lu.transformation2
... def scaled(f, factor, x):
...     return factor * f(x)
>>> scaled(lu.wrap_init(abs), 10).call_wrapped(-2)
20
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Any


class StoreException(Exception):
    """An auxiliary output was asked for before it was there, or given twice."""


class Store:
    """A place for one auxiliary output."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def store(self, value: Any) -> None:
        """Put the value there.

        Raises:
            StoreException: there is one.
        """
        if self._values:
            raise StoreException("Store occupied")
        self._values.append(value)

    @property
    def val(self) -> Any:
        if not self._values:
            raise StoreException("Store empty")
        return self._values[0]

    def __bool__(self) -> bool:
        return bool(self._values)


class WrappedFun:
    """A function and the transformations around it, outermost first; see the module's text."""

    def __init__(
        self,
        f: Callable[..., Any],
        f_transformed: Callable[..., Any],
        transforms: tuple[tuple[Callable[..., Any], tuple[Hashable, ...]], ...] = (),
        stores: tuple[Store | None, ...] = (),
        params: tuple[tuple[str, Hashable], ...] = (),
        debug_info: Any = None,
    ):
        self.f = f
        self.f_transformed = f_transformed
        self.transforms = transforms
        self.stores = stores
        self.params = params
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Call the transformed function."""
        return self.f_transformed(*args, **kwargs)

    def wrap(self, gen: Callable[..., Any], parameters: tuple, store: Store | None) -> WrappedFun:
        """The function inside one more transformation."""
        inside = (self.f_transformed,) if store is None else (self.f_transformed, store)
        outside = functools.partial(gen, *inside, *parameters)
        transforms = ((gen, parameters), *self.transforms)
        return WrappedFun(self.f, outside, transforms, (store, *self.stores), self.params, self.debug_info)

    def _key(self) -> tuple:
        return self.transforms, self.params

    def __hash__(self) -> int:
        return hash((self.f, self._key()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self.f == other.f and self._key() == other._key()

    def __repr__(self) -> str:
        chain = [f"{getattr(gen, '__name__', gen)}{parameters}" for gen, parameters in self.transforms]
        return "Wrapped function:\n" + "\n".join([*chain, f"Core: {self.__name__}"])


def wrap_init(
    f: Callable[..., Any], params: dict[str, Hashable] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    """A function with no transformations around it yet.

    Args:
        f: the function.
        params: what distinguishes it for caches, besides itself.
        debug_info: kept as it is.
    """
    return WrappedFun(f, f, params=tuple(sorted((params or {}).items())), debug_info=debug_info)


def _curried(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Called with its first argument only, it waits for the others: a decorator of transformations."""

    @functools.wraps(fun)
    def curried(first: Any, *rest: Any, **options: Any) -> Any:
        return fun(first, *rest, **options) if rest else functools.partial(fun, first, **options)

    return curried


@_curried
def transformation2(gen: Callable[..., Any], fun: WrappedFun, *gen_static_args: Hashable) -> WrappedFun:
    """Put a transformation around a function: `gen(f, *gen_static_args, *args)` calls f. Also a decorator of `gen`."""
    return fun.wrap(gen, gen_static_args, None)


@_curried
def transformation_with_aux2(gen: Callable[..., Any], fun: WrappedFun, *gen_static_args: Hashable, **_: Any) -> Any:
    """Like `transformation2`, for a `gen(f, store, *gen_static_args, *args)` that stores an auxiliary output.

    Returns:
        The function, and a function of no arguments that gives the auxiliary output after a call.
    """
    store = Store()
    return fun.wrap(gen, gen_static_args, store), lambda: store.val


@_curried
def transformation(gen: Callable[..., Any], fun: WrappedFun, *gen_static_args: Hashable) -> WrappedFun:
    """Like `transformation2`, for a generator: it yields (args, kwargs), is sent the result and yields its own."""
    return fun.wrap(_FromGenerator(gen), gen_static_args, None)


@_curried
def transformation_with_aux(gen: Callable[..., Any], fun: WrappedFun, *gen_static_args: Hashable) -> Any:
    """Like `transformation`, for a generator that yields a result and an auxiliary output in the end."""
    store = Store()
    return fun.wrap(_FromGenerator(gen), gen_static_args, store), lambda: store.val


class _FromGenerator:
    """A generator as a function of the function inside."""

    def __init__(self, gen: Callable[..., Any]):
        self.gen = gen
        self.__name__ = getattr(gen, "__name__", str(gen))

    def __call__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        store, args = (args[0], args[1:]) if args and isinstance(args[0], Store) else (None, args)
        steps = self.gen(*args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        out = steps.send(f(*inner_args, **inner_kwargs))
        steps.close()
        if store is None:
            return out
        out, aux = out
        store.store(aux)
        return out

    def __hash__(self) -> int:
        return hash(self.gen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FromGenerator) and self.gen == other.gen


def cache(call: Callable[..., Any], *, explain: Any = None) -> Callable[..., Any]:
    """Remember the results of `call(fun, *args)`, with the auxiliary outputs that the call stored.

    Args:
        call: a function of a WrappedFun and hashable arguments.
        explain: accepted for compatibility.
    """
    remembered: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
        results = remembered.setdefault(fun.f, {})
        key = (fun._key(), args)
        if key not in results:
            results[key] = call(fun, *args), fun.stores
            return results[key][0]
        out, stores = results[key]
        for ours, theirs in zip(fun.stores, stores):
            if ours is not None and theirs and ours is not theirs:
                ours.store(theirs.val)
        return out

    cached.cache_clear = remembered.clear  # type: ignore[attr-defined]
    return cached


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether the first of two auxiliary outputs is the one that was stored, and its value.

    Raises:
        StoreException: none was, or both were.
    """
    try:
        first = aux1()
    except StoreException:
        try:
            return False, aux2()
        except StoreException:
            raise StoreException("neither store occupied") from None
    try:
        aux2()
    except StoreException:
        return True, first
    raise StoreException("both stores occupied")
