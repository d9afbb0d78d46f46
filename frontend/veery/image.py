"""Images resized, scaled and moved."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core import dtypes
from veery._core.shapes import canonicalize_axis, canonicalize_shape
from veery.numpy._creation import from_host
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_inexact
from veery.numpy._shaping import as_array

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How values between an image's pixels are found."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name.

        Raises:
            ValueError: there is no such method.

        >>> ResizeMethod.from_string("bilinear")
        <ResizeMethod.LINEAR: 1>
        """
        if s not in _NAMES:
            raise ValueError(f'Unknown resize method "{s}"')
        return _NAMES[s]


_NAMES = {
    name: method
    for method, names in {
        ResizeMethod.NEAREST: "nearest",
        ResizeMethod.LINEAR: "linear bilinear trilinear triangle",
        ResizeMethod.LANCZOS3: "lanczos3",
        ResizeMethod.LANCZOS5: "lanczos5",
        ResizeMethod.CUBIC: "cubic bicubic tricubic",
        ResizeMethod.CUBIC_PYTORCH: "cubic-pytorch bicubic-pytorch",
        ResizeMethod.AREA: "area",
    }.items()
    for name in names.split()
}


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return ResizeMethod.from_string(method) if isinstance(method, str) else ResizeMethod(method)


def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """An image in another size.

    Args:
        image: array of any number of dimensions.
        shape: the sizes of all of them in the result; those that stay are batches and channels.
        method: "nearest", "linear", "cubic" (Keys 1981), "cubic-pytorch" (with a steeper kernel and repeated edges if
            there is no antialiasing), "lanczos3", "lanczos5", "area" (the average over a pixel's area), or a
            `ResizeMethod`.
        antialias: whether the kernel grows with the pixels when an image becomes smaller; else pixels are left out.
        precision: of the products.

    Returns:
        An array of this shape, and of the image's dtype with "nearest", else of its float dtype.

    Raises:
        TypeError: the image is no array, or a size no integer.
        ValueError: the sizes are not as many as the dimensions, or there is no such method.

    >>> import veery.numpy as jnp
    >>> resize(jnp.array([0.0, 4.0]), (4,), "linear").tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    image = ensure_arraylike("resize", image)
    image, shape = as_array(image), canonicalize_shape(shape)
    _check_rank(image, shape)
    kind = _method(method)
    axes = tuple(i for i in range(image.ndim) if image.shape[i] != shape[i])
    if kind is ResizeMethod.NEAREST:
        return run(_nearest, image, shape=shape, axes=axes)
    (image,) = promote_dtypes_inexact(image)
    if not axes or 0 in image.shape or 0 in shape:
        return image if image.shape == shape else jnp.zeros(shape, image.dtype)
    ratios = [shape[i] / image.shape[i] for i in axes]
    static = {"shape": shape, "axes": axes, "method": kind, "antialias": bool(antialias), "precision": precision}
    return run(
        _scaled, image, from_host(np.array(ratios, dtypes.default_float_dtype())), jnp.zeros(len(axes)), **static
    )


def _check_rank(image: Array, shape: tuple[int, ...]) -> None:
    if len(shape) != image.ndim:
        raise ValueError(f"shape must have length equal to the number of dimensions of x;  {shape} vs {image.shape}")


def _nearest(image: Array, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    for axis in axes:
        places = np.floor((np.arange(shape[axis]) + 0.5) * (image.shape[axis] / max(shape[axis], 1))).astype(np.int32)
        image = image[(slice(None),) * axis + (places,)]
    return image


def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """An image stretched and moved: what was at x comes to `x * scale + translation`.

    Pixels have their middles at 0.5, 1.5, ... To align corners as other libraries can, let the scale be
    `(n - 1) / (m - 1)` and the translation `(1 - scale) / 2`.

    Args:
        image: array of any number of dimensions.
        shape: the sizes of all of them in the result.
        spatial_dims: which k of them are stretched and moved.
        scale: array of shape (k,).
        translation: array of shape (k,).
        method: see `resize`; not "nearest".
        antialias: see `resize`.
        precision: of the products.

    Returns:
        An array of this shape in the image's float dtype; zero where there was no image.

    Raises:
        TypeError: the image is no array, or a size no integer.
        ValueError: the sizes are not as many as the dimensions, or there is no such method.

    >>> import veery.numpy as jnp
    >>> scale_and_translate(jnp.arange(3.0), (3,), (0,), jnp.ones(1), jnp.ones(1), "linear").tolist()
    [0.0, 0.0, 1.0]
    """
    image = ensure_arraylike("scale_and_translate", image)
    image, shape = as_array(promote_dtypes_inexact(image)[0]), canonicalize_shape(shape)
    _check_rank(image, shape)
    kind = _method(method)
    if kind is ResizeMethod.NEAREST:
        raise ValueError("Nearest neighbor resampling is not currently supported for scale_and_translate.")
    scale, translation = (as_array(x) for x in promote_dtypes_inexact(jnp.asarray(scale), jnp.asarray(translation)))
    axes = tuple(canonicalize_axis(operator.index(axis), image.ndim) for axis in spatial_dims)
    if scale.shape != (len(axes),) or translation.shape != (len(axes),):
        raise ValueError(
            f"scale and translation must have a number for each of the dimensions {axes}, got shapes {scale.shape} and "
            f"{translation.shape}."
        )
    unmoved = [i for i in range(image.ndim) if i not in axes and image.shape[i] != shape[i]]
    if unmoved:
        raise ValueError(f"the sizes of the dimensions {unmoved} change, which are not among spatial_dims {axes}.")
    static = {"shape": shape, "axes": axes, "method": kind, "antialias": bool(antialias), "precision": precision}
    return run(_scaled, image, scale, translation, **static)


def _scaled(
    image: Array,
    scale: Array,
    translation: Array,
    *,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Array:
    """Each dimension by a matrix of weights."""
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    for k, axis in enumerate(axes):
        sizes = image.shape[axis], shape[axis]
        weights = _weights(*sizes, scale[k], translation[k], method, antialias).astype(image.dtype)
        moved = jnp.tensordot(image, weights, ((axis,), (0,)), precision=precision)
        image = jnp.moveaxis(moved, -1, axis)
    return image


def _weights(m: int, n: int, scale: Array, translation: Array, method: ResizeMethod, antialias: bool) -> Array:
    """How much each of m pixels counts in each of n new ones."""
    number = lambda value: np.asarray(value, scale.dtype)
    inverse = number(1) / scale
    repeats_edges = method is ResizeMethod.CUBIC_PYTORCH
    beyond = 2 if repeats_edges else 0
    old = lax.broadcasted_iota(scale.dtype, (m + 2 * beyond, n), 0) - number(beyond)
    new = lax.broadcasted_iota(scale.dtype, (m + 2 * beyond, n), 1)
    if method is ResizeMethod.AREA:
        start = (new - translation) * inverse
        overlap = jnp.minimum(start + inverse, old + number(1)) - jnp.maximum(start, old)
        weights = jnp.maximum(number(0), overlap)
    else:
        width = jnp.maximum(inverse, number(1)) if antialias else number(1)
        middle = (new + number(0.5)) * inverse - translation * inverse - number(0.5)
        weights = _KERNELS[method](lax.abs(middle - old) / width, number)
    if repeats_edges:
        first, last = weights[:beyond], weights[m + beyond :]
        inner = weights[beyond : m + beyond]
        sums = [jnp.sum(x, axis=0, keepdims=True) for x in (first, last)]
        place = lax.broadcasted_iota(np.int32, inner.shape, 0)
        weights = inner + jnp.where(place == 0, sums[0], number(0)) + jnp.where(place == m - 1, sums[1], number(0))
    total = jnp.sum(weights, axis=0, keepdims=True)
    usable = lax.abs(total) > number(1000 * float(np.finfo(np.float32).eps))
    weights = jnp.where(usable, weights / jnp.where(usable, total, number(1)), number(0))
    if repeats_edges:
        return weights
    middle = (new[:1] + number(0.5)) * inverse - translation * inverse - number(0.5)
    return jnp.where((middle >= number(-0.5)) & (middle <= number(m - 0.5)), weights, number(0))


def _triangle(x: Array, number: Callable[[float], Any]) -> Array:
    return jnp.maximum(number(0), number(1) - x)


def _cubic(x: Array, number: Callable[[float], Any], a: float) -> Array:
    """Keys (1981), with the slope a at 1."""
    near = ((number(a + 2) * x - number(a + 3)) * x) * x + number(1)
    far = ((number(a) * x - number(5 * a)) * x + number(8 * a)) * x - number(4 * a)
    return jnp.where(x >= number(2), number(0), jnp.where(x >= number(1), far, near))


def _lanczos(x: Array, number: Callable[[float], Any], radius: float) -> Array:
    small = x <= number(1e-3)
    safe = jnp.where(small, number(1), x)
    waves = number(radius) * jnp.sin(number(np.pi) * safe) * jnp.sin(number(np.pi / radius) * safe)
    out = jnp.where(small, number(1), waves / (number(np.pi**2) * safe * safe))
    return jnp.where(x > number(radius), number(0), out)


_KERNELS: dict[ResizeMethod, Callable[..., Array]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: lambda x, number: _cubic(x, number, -0.5),
    ResizeMethod.CUBIC_PYTORCH: lambda x, number: _cubic(x, number, -0.75),
    ResizeMethod.LANCZOS3: lambda x, number: _lanczos(x, number, 3.0),
    ResizeMethod.LANCZOS5: lambda x, number: _lanczos(x, number, 5.0),
}
