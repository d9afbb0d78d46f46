"""Factorisations and solutions: backward stable, so that their errors are those of operands that differ a little."""

from __future__ import annotations

import numpy as np

from veery._core.jaxpr import JaxprEqn
from veery._reference.formats import format_of
from veery._reference.interpreter import Interpreter, rule
from veery._reference.leaves import leaf
from veery._reference.samples import Value, each, shared

_MATRIXWISE = ("cholesky", "lu", "qr", "eigh", "svd", "eig", "schur", "hessenberg", "tridiagonal", "determinant")
_ELEMENTWISE = ("triangular_solve", "lu_solve", "tridiagonal_solve", "householder_product", "ormqr")
_ULPS = 2.0


@rule(*_MATRIXWISE, *_ELEMENTWISE)
def _backward_stable(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    name = eqn.primitive.name
    moved = [_moved(interp, v, a.aval.dtype, name in _MATRIXWISE) for v, a in zip(operands, eqn.invars)]
    outs = each(leaf(name, eqn), moved, count)
    if name in _SIGNS:
        outs = _with_open_signs(interp, name, eqn, outs)
    results = []
    for i, (out, var) in enumerate(zip(outs, eqn.outvars)):
        form = format_of(var.aval.dtype)
        sizes = _finite(np.abs(out[0]))
        sizes = np.ones_like(sizes) if i in _OF_UNIT_VECTORS.get(name, ()) else sizes
        results.append(out if form is None else interp.disturb(out, form.eps * _ULPS * sizes, form))
    return results


# Results that are vectors of length 1: these are orthogonal to rounding of that length, not of each of their elements.
_OF_UNIT_VECTORS = {"qr": (0,), "eigh": (0,), "svd": (1, 2), "schur": (1,), "eig": (1, 2)}


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, 0)


def _moved(interp: Interpreter, value: Value, dtype: object, matrixwise: bool) -> Value:
    form = format_of(dtype)
    if form is None or not value[0].size:
        return value
    x = _finite(np.abs(value[0]))
    if matrixwise:
        n = max(x.shape[-2:])
        x = np.broadcast_to(x.max((-1, -2), keepdims=True), x.shape)
    else:
        n = x.shape[-1]
    error = _ULPS * form.eps * np.sqrt(n) * x
    arrays = [value[0]]
    for sample in value[1:]:
        noise = interp.rng.uniform(-1, 1, x.shape) * error
        if sample.dtype.kind == "c":
            noise = noise + 1j * interp.rng.uniform(-1, 1, x.shape) * error
        arrays.append(sample + noise)
    return shared(arrays)


# Vectors of which only the direction is given: which of the two signs (complex: phases) they have depends on the
# implementation. For each primitive, the results whose columns or rows change together: (result, axis of vectors).
_SIGNS = {
    "eigh": [[(0, -1)]],
    "svd": [[(1, -1), (2, -2)]],
    "eig": [[(1, -1)], [(2, -1)]],
}


def _with_open_signs(interp: Interpreter, name: str, eqn: JaxprEqn, outs: list[Value]) -> list[Value]:
    results = [list(out) for out in outs]
    for group in _SIGNS[name]:
        group = [(i, axis) for i, axis in group if i < len(outs)]
        if not group:
            continue
        index, axis = group[0]
        n = min(outs[i][0].shape[a] for i, a in group)
        batch = outs[index][0].shape[:-2]
        for s in range(1, len(outs[index])):
            phase = _phase(interp, (*batch, n), outs[index][0].dtype, s)
            for i, a in group:
                vectors = results[i][s]
                factor = np.ones((*batch, vectors.shape[a]), phase.dtype)
                factor[..., :n] = phase if a == -1 else phase.conj()
                results[i][s] = vectors * (factor[..., None, :] if a == -1 else factor[..., :, None])
    return [shared(arrays) for arrays in results]


def _phase(interp: Interpreter, shape: tuple[int, ...], dtype: np.dtype, sample: int) -> np.ndarray:
    """Signs, or phases of complex vectors; those of the second sample are all the other ones."""
    if sample == 1:
        return -np.ones(shape, dtype)
    if dtype.kind == "c":
        return np.exp(2j * np.pi * interp.rng.random(shape))
    return np.where(interp.rng.random(shape) < 0.5, -1.0, 1.0)
