"""NumPy's functions that programs for the CPU call: sorting, and the references of primitives.

They are plain data, so that a program that is found on disk calls them again. Those that neither change nor keep their
arguments, keep no results and call no programs say `reads_only`: they are given the program's own memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from veery_lowering.program import HostCall, Program, Signature, place_of

_FEW = 1 << 9  # elements that are sorted, stably and as a whole, in the time that a faster way takes to begin


@dataclass(frozen=True)
class HostSort:
    """Stable lexicographic sort of arrays along an axis by the first `num_keys` of them; NaN comes last."""

    axis: int
    num_keys: int
    reads_only: ClassVar[bool] = True

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        if len(arrays) == 1:
            return [_sorted(arrays[0], self.axis)]
        keys = [part for x in arrays[: self.num_keys] for part in _parts(_key(x))]
        if len(keys) == 1:
            order = np.argsort(keys[0], axis=self.axis, kind="stable")
        else:
            order = np.lexsort(keys[::-1], axis=self.axis)
        if order.ndim == 1:
            return [x[order] for x in arrays]
        return [np.take_along_axis(x, order, axis=self.axis) for x in arrays]


def _key(x: np.ndarray) -> np.ndarray:
    """An array that NumPy knows how to order (NaN last) and that orders like x."""
    return x.astype(np.float32) if x.dtype.kind == "V" or x.dtype.num >= 256 and x.dtype.name not in _INTEGERS else x


_INTEGERS = frozenset(("int2", "int4", "uint2", "uint4"))


def _parts(key: np.ndarray) -> list[np.ndarray]:
    """What is compared in turn: a complex number by its real part, then its imaginary part, NaN last in each.

    NumPy's order differs where a NaN is: it puts 1 + nan j after 2.
    """
    return [key.real, key.imag] if key.dtype.kind == "c" else [key]


def _sorted(x: np.ndarray, axis: int) -> np.ndarray:
    key = _key(x)
    if key.dtype.kind == "c" and np.isnan(key).any():
        return np.take_along_axis(x, np.lexsort(_parts(key)[::-1], axis=axis), axis)
    if key.dtype.kind in "fc" and key.size > _FEW:
        # Only negative zeros tell a stable order of equal numbers from another: the unstable sort is 8 times faster.
        negative_zeros = (key.view(key.real.dtype) == 0) & np.signbit(key.view(key.real.dtype))
        return np.sort(key, axis=axis, kind="stable" if negative_zeros.any() else None).astype(x.dtype, copy=False)
    return np.sort(key, axis=axis, kind="stable" if key.dtype.kind in "fc" else None).astype(x.dtype, copy=False)


_PART = 8  # elements, of which the largest may be one of the k largest
_MANY = 1 << 14  # elements for which that is worth it: of 200 rows of 1000 the 5 largest take 370 us for 540
_SHORT = 1 << 7  # rows up to which all are sorted: the 3 largest of 10 in 10^4 rows take 500 us for 1760


@dataclass(frozen=True)
class HostTopK:
    """The k largest along the last axis in descending order and their indices: NaN, then numbers, ties by index."""

    k: int
    index_dtype: str
    reads_only: ClassVar[bool] = True

    def __call__(self, x: np.ndarray) -> list[np.ndarray]:
        n = x.shape[-1]
        if x.ndim > 1 and n <= _SHORT and self.k and x.size and (order := _as_int32(_key(x))) is not None:
            index = self._of_short_rows(order)
            flat = index.reshape(-1, self.k) + np.arange(0, x.size, n)[:, None]
            return [x.reshape(-1).take(flat).reshape(index.shape), index.astype(self.index_dtype)]
        key = _key_of_largest(x)
        whole = 4 * self.k > n or not self.k or x.size <= _FEW
        index = _descending(key)[..., : self.k] if whole else self._from_partition(key)
        return [x[index] if x.ndim == 1 else np.take_along_axis(x, index, axis=-1), index.astype(self.index_dtype)]

    def _of_short_rows(self, order: np.ndarray) -> np.ndarray:
        """By sorting numbers that have the place in a row, counted from its end, in their lower half."""
        n = order.shape[-1]
        pairs = order.astype(np.int64) << 32 | np.arange(n - 1, -1, -1)
        pairs.sort(axis=-1)
        largest: np.ndarray = n - 1 - (pairs[..., n - self.k :][..., ::-1] & 0xFFFFFFFF)
        return largest

    def _from_partition(self, key: np.ndarray) -> np.ndarray:
        """Without a full sort, but for rows with ties at the end: 10 of 10^4 in 100 rows take 8 ms instead of 100."""
        n = key.shape[-1]
        whole = None if key.dtype.kind == "c" else self._from_parts(key)
        whole = self._from_limits(key) if whole is None and key.dtype.kind != "c" else whole
        if whole is not None:
            return whole
        candidates = np.sort(np.argpartition(key, n - self.k, axis=-1)[..., n - self.k :], axis=-1)
        chosen = np.take_along_axis(key, candidates, axis=-1)
        index = np.take_along_axis(candidates, _descending(chosen), axis=-1)
        last = np.take_along_axis(key, index[..., -1:], axis=-1)
        unsure = ((key == last).sum(-1) != (chosen == last).sum(-1)) | (last != last)[..., 0]
        if unsure.any():
            index[unsure] = _descending(key[unsure])[..., : self.k]
        return index

    def _from_parts(self, key: np.ndarray) -> np.ndarray | None:
        """Of those that are at least as large as the kth of the largest of parts, in half the time of a partition.

        None where parts are few, or what is found many, as with ties; and of NaN.
        """
        n, k = key.shape[-1], self.k
        parts = n // _PART
        if parts < 8 * k or key.size < _MANY:
            return None
        rows = key.reshape(-1, n)
        largest = rows[:, : parts * _PART].reshape(-1, _PART, parts).max(1)
        if key.dtype.kind == "f" and (np.isnan(largest).any() or np.isnan(rows[:, parts * _PART :]).any()):
            return None
        limits = np.partition(largest, parts - k, axis=-1)[:, parts - k, None]
        found = np.flatnonzero(rows >= limits)
        row = found // n
        counts = np.bincount(row, minlength=len(rows))
        most = counts.max()
        if most > 4 * k:
            return None
        place = np.arange(found.size) - (counts.cumsum() - counts)[row]
        indices, values = np.zeros((len(rows), most), np.intp), np.full((len(rows), most), _lowest(key.dtype))
        indices[row, place], values[row, place] = found - n * row, rows.reshape(-1)[found]
        chosen = _descending(values)[:, :k]  # what was filled in comes last
        return np.take_along_axis(indices, chosen, 1).reshape(*key.shape[:-1], k)

    def _from_limits(self, key: np.ndarray) -> np.ndarray | None:
        """Of those that are at least as large as the kth; None if in a row these are not k, as with ties and NaN."""
        n = key.shape[-1]
        mask = key >= np.partition(key, n - self.k, axis=-1)[..., n - self.k, None]
        found = np.flatnonzero(mask)
        rows = key.size // n
        if found.size != rows * self.k:
            return None
        if key.ndim == 1:  # 5 of 1000 in 12 us for 24
            alone: np.ndarray = found[_descending(key[found])]
            return alone
        candidates = found.reshape(rows, self.k) - n * np.arange(rows)[:, None]
        if ((candidates < 0) | (candidates >= n)).any():
            return None
        candidates = candidates.reshape(*key.shape[:-1], self.k)
        return np.take_along_axis(candidates, _descending(np.take_along_axis(key, candidates, axis=-1)), axis=-1)


def _lowest(dtype: np.dtype) -> np.ndarray:
    return np.array(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min if dtype.kind in "iu" else False, dtype)


def _as_int32(key: np.ndarray) -> np.ndarray | None:
    """Integers that are ordered as numbers are, NaN last and -0.0 before 0.0; None of numbers of more bits."""
    if key.dtype.kind == "u" and key.itemsize == 4:
        return (key ^ np.uint32(1 << 31)).view(np.int32)
    if key.dtype.kind in "iub" and key.itemsize <= 4:
        return key.astype(np.int32)
    if key.dtype.kind != "f" or key.itemsize > 4:
        return None
    bits = key.astype(np.float32).view(np.int32)
    most = np.int32(np.iinfo(np.int32).max)
    order: np.ndarray = bits ^ (bits >> 31 & most)
    if np.isnan(key.max()):
        order[np.isnan(key)] = most
    return order


def _key_of_largest(x: np.ndarray) -> np.ndarray:
    """An array that NumPy knows how to order (NaN last) and that orders like x, with -0.0 before 0.0."""
    key = _key(x)
    if key.dtype.kind != "f" or key.all() or not ((key == 0) & np.signbit(key)).any():
        return key
    bits = key.view(f"int{8 * key.itemsize}")
    most = np.iinfo(bits.dtype).max
    return np.where(np.isnan(key), most, np.where(bits < 0, bits ^ most, bits))


def _descending(key: np.ndarray) -> np.ndarray:
    """The indices that order the last axis from the largest, ties by ascending index."""
    # Twice reversed: ascending and stable in the reversed order is descending with ties by ascending index.
    backwards: np.ndarray = np.argsort(key[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    places: np.ndarray = key.shape[-1] - 1 - backwards
    return places


def _top_k(eqn: Any) -> HostTopK | None:
    k, axis, ndim = eqn.params["k"], eqn.params["axis"], eqn.invars[0].aval.ndim
    return HostTopK(k, np.dtype(eqn.outvars[1].aval.dtype).name) if axis % ndim == ndim - 1 else None


# What programs call for an equation, where that is not the primitive's reference.
CALLS: Mapping[str, Callable[[Any], Callable[..., Any] | None]] = {
    "sort": lambda eqn: HostSort(eqn.params["dimension"], eqn.params["num_keys"]),
    "top_k": _top_k,
}


# Primitives that compiled programs call by LAPACK's addresses, and what that multiplies, roughly, for each element of a
# matrix and each of its columns (of a right side, each row of the matrix).
ROUTINES: Mapping[str, int] = {
    "cholesky": 1, "lu": 1, "triangular_solve": 1, "qr": 4, "householder_product": 2, "eigh": 10, "svd": 20,
    "determinant": 1, "lu_solve": 2, "lu_pivots_to_permutation": 0,
}  # fmt: skip

# Primitives that XLA has no operation for, nor its CPU plugin LAPACK: they are calls of the host there.
NOT_OF_XLA = frozenset(
    "lu lu_pivots_to_permutation qr householder_product eigh svd ormqr hessenberg tridiagonal tridiagonal_solve"
    " cholesky triangular_solve eig schur determinant lu_solve".split()
)


def evaluated(function: Any, closed_jaxpr: Any, name: str, donated: Sequence[bool]) -> Program:
    """The program of a jaxpr that a function evaluates whole, without code: see veery_runtime.evaluated.

    Args:
        function: takes and gives a list of arrays; it estimates its `work`, and has `constants`.
    """
    inputs, outputs = (_types(avals) for avals in (closed_jaxpr.in_avals, closed_jaxpr.out_avals))
    return Program(
        name=name,
        vmfb=b"",
        target="cpu",
        backend="cpu",
        inputs=inputs,
        outputs=outputs,
        donated=tuple(donated) or (False,) * len(inputs),
        host_calls=(HostCall("main", function, inputs, outputs, True),),
        work=function.work,
        metadata={"source": place_of(closed_jaxpr.jaxpr)},
    )


def _types(avals: Sequence[Any]) -> Signature:
    return tuple((aval.shape, getattr(aval.dtype, "physical", aval.dtype).name) for aval in avals)


@dataclass(frozen=True)
class HostReference:
    """A primitive's NumPy reference with its parameters."""

    primitive: Any
    params: tuple[tuple[str, Any], ...]

    @functools.cached_property
    def _function(self) -> Callable[..., Any]:
        return functools.partial(self.primitive.reference, **dict(self.params))

    @property
    def __name__(self) -> str:  # of the function, for messages
        return str(self.primitive.name)

    @property
    def reads_only(self) -> bool:
        return bool(self.primitive.name != "ffi_call")  # what a library does to its arguments is its own affair

    def __call__(self, *operands: np.ndarray) -> list[np.ndarray]:
        out = self._function(*operands)
        return list(out) if self.primitive.multiple_results else [out]


def described(calls: tuple[HostCall, ...], closed_jaxpr: Any) -> list[dict[str, Any]] | None:
    """Calls as JSON, from which `restored` makes them anew; None if one is of another function, as a user's own."""
    descriptions = [d for d in map(_description, calls) if d is not None]
    complete = len(descriptions) == len(calls) and restored(descriptions, closed_jaxpr) is not None
    return descriptions if complete else None


def restored(descriptions: list[Any], closed_jaxpr: Any) -> tuple[HostCall, ...] | None:
    """The calls that were described, in a program of the same jaxpr; None if there is a function that it lacks."""
    names = {data["primitive"] for kind, data in (made["function"] for made in descriptions) if kind not in _PLAIN}
    references = {_text(r): r for r in _references(closed_jaxpr.jaxpr, names)} if names else {}
    calls = []
    for made in descriptions:
        kind, data = made["function"]
        function = _PLAIN[kind](**data) if kind in _PLAIN else references.get(data["text"])
        if function is None:
            return None
        signature = _signature(made["inputs"]), _signature(made["outputs"])
        calls.append(HostCall(made["symbol"], function, *signature, made["pure"]))
    return tuple(calls)


_PLAIN: dict[str, Any] = {kind.__name__: kind for kind in (HostSort, HostTopK)}


def _description(call: HostCall) -> dict[str, Any] | None:
    function: Any = call.function
    kind = type(function)
    if kind is HostReference:
        data = {"primitive": function.primitive.name, "text": _text(function)}
    elif kind in _PLAIN.values():
        data = asdict(function)
    else:
        return None
    signature = {"inputs": call.inputs, "outputs": call.outputs}
    return {"symbol": call.symbol, "function": [kind.__name__, data], **signature, "pure": call.pure}


def _text(reference: HostReference) -> str:
    return f"{reference.primitive.name} {sorted(reference.params, key=lambda item: item[0])!r}"


def _references(jaxpr: Any, names: set[str]) -> Iterator[HostReference]:
    """Those of the equations with primitives of these names, also in jaxprs within others."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in names:
            yield HostReference(eqn.primitive, tuple(eqn.params.items()))
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _references(inner, names)


def _signature(items: list[Any]) -> Signature:
    return tuple((tuple(shape), dtype) for shape, dtype in items)
