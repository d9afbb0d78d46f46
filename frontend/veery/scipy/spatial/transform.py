"""Rotations of three-dimensional space, and between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from veery import lax, numpy as jnp, random as _random
from veery.numpy._promotion import Array, ArrayLike, promote_dtypes_inexact

__all__ = ["Rotation", "Slerp"]


class Rotation(NamedTuple):
    """A rotation, or several. It is a pytree.

    Attributes:
        quat: unit quaternions (x, y, z, w), an array of shape (..., 4).

    >>> import veery.numpy as jnp
    >>> quarter = Rotation.from_euler("z", 90, degrees=True)
    >>> (quarter.apply(jnp.array([1.0, 0.0, 0.0])).round(4) + 0.0).tolist()
    [0.0, 1.0, 0.0]
    """

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several rotations as one object."""
        return cls(jnp.concatenate([jnp.atleast_2d(rotation.quat) for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations about axes, one after the other.

        Args:
            seq: one to three axes: of "xyz" for axes that stay, of "XYZ" for axes that turn with the body.
            angles: array of shape (..., len(seq)); a number for one axis.
            degrees: whether the angles are in degrees.

        Raises:
            ValueError: there are no such axes, two after each other are the same, or the angles are not as many.
        """
        intrinsic = _check_axes(seq)
        angles = jnp.atleast_1d(_floats(angles))
        if angles.shape[-1] != len(seq):
            raise ValueError(f"Expected an angle for each of the axes {seq}, got angles of shape {angles.shape}")
        half = (jnp.deg2rad(angles) if degrees else angles) / 2
        quat: Any = None
        for place, axis in enumerate("xyz".index(name) for name in seq.lower()):
            sine, cosine = jnp.sin(half[..., place]), jnp.cos(half[..., place])
            parts = [sine if i == axis else jnp.zeros_like(sine) for i in range(3)]
            turn = jnp.stack([*parts, cosine], axis=-1)
            quat = turn if quat is None else _product(quat, turn) if intrinsic else _product(turn, quat)
        return cls(quat)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """The rotations of orthogonal matrices of determinant 1, an array of shape (..., 3, 3).

        Raises:
            ValueError: the matrices have another shape.
        """
        m = _floats(matrix)
        if m.shape[-2:] != (3, 3):
            raise ValueError(f"Expected matrices of shape (..., 3, 3), got {m.shape}")
        e = lambda i, j: m[..., i, j]
        trace = e(0, 0) + e(1, 1) + e(2, 2)
        # the product of the quaternion with each of its elements, of which the one by the largest is divided
        candidates = []
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            parts = {i: 1 - trace + 2 * e(i, i), j: e(j, i) + e(i, j), k: e(k, i) + e(i, k), 3: e(k, j) - e(j, k)}
            candidates.append([parts[place] for place in range(4)])
        candidates.append([e(2, 1) - e(1, 2), e(0, 2) - e(2, 0), e(1, 0) - e(0, 1), 1 + trace])
        choices = jnp.stack([jnp.stack(parts, -1) for parts in candidates], -2)
        largest = jnp.argmax(jnp.stack([e(0, 0), e(1, 1), e(2, 2), trace], -1), axis=-1)
        return cls(_normalized(jnp.take_along_axis(choices, largest[..., None, None], axis=-2)[..., 0, :]))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """The rotations of modified Rodrigues parameters, an array of shape (..., 3)."""
        p = _floats(mrp)
        square = jnp.sum(p * p, axis=-1, keepdims=True)
        return cls(jnp.concatenate([2 * p, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """The rotations of quaternions (x, y, z, w) of any norm, an array of shape (..., 4)."""
        return cls(_normalized(_floats(quat)))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """The rotations about vectors by angles that are their norms, an array of shape (..., 3)."""
        v = _floats(rotvec)
        v = jnp.deg2rad(v) if degrees else v
        square = jnp.sum(v * v, axis=-1, keepdims=True)
        small = square <= 1e-6
        angle = jnp.sqrt(jnp.where(small, 1, square))
        scale = jnp.where(small, 0.5 - square / 48 + square * square / 3840, jnp.sin(angle / 2) / angle)
        cosine = jnp.where(small, 1 - square / 8 + square * square / 384, jnp.cos(angle / 2))
        return cls(jnp.concatenate([scale * v, cosine], axis=-1))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that changes nothing, or `num` of them."""
        quat = jnp.array([0.0, 0.0, 0.0, 1.0], dtype=dtype)
        return cls(quat if num is None else jnp.broadcast_to(quat, (num, 4)))

    @classmethod
    def random(cls, random_key: ArrayLike, num: int | None = None) -> Rotation:
        """A rotation, or `num` of them, of the uniform distribution."""
        return cls(_normalized(_random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer: Any) -> Rotation:  # type: ignore[override]
        """Some of the rotations.

        Raises:
            TypeError: it is a single one.
        """
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """How many rotations there are.

        Raises:
            TypeError: it is a single one.
        """
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        """The rotation by the other one first, then by this."""
        return Rotation.from_quat(_product(self.quat, other.quat))

    def apply(self, vectors: ArrayLike, inverse: bool | Array = False) -> Array:
        """Vectors rotated.

        Args:
            vectors: array of shape (..., 3), which broadcasts with the rotations.
            inverse: whether they are rotated back.
        """
        matrix = self.as_matrix()
        matrix = jnp.where(inverse, jnp.matrix_transpose(matrix), matrix)
        x = _floats(vectors)
        rank = max(x.ndim, matrix.ndim - 1)
        x, matrix = lax.broadcast_to_rank(x, rank), lax.broadcast_to_rank(matrix, rank + 1)
        return jnp.matmul(matrix, x[..., None], precision=lax.Precision.HIGHEST)[..., 0]

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The angles about three axes, an array of shape (..., 3) (Bernardes and Viollet 2022); see `from_euler`.

        Where the second angle leaves the others undetermined the third is zero.

        Raises:
            ValueError: there are no such axes, or two after each other are the same.
        """
        if len(seq) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        extrinsic = not _check_axes(seq)
        i, j, k = ("xyz".index(name) for name in (seq.lower() if extrinsic else seq.lower()[::-1]))
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = lambda place: self.quat[..., place]
        if symmetric:
            a, b, c, d = q(3), q(i), q(j), q(k) * sign
        else:
            a, b, c, d = q(3) - q(j), q(i) + q(k) * sign, q(j) + q(3), q(k) * sign - q(i)
        second = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        none, half_turn = jnp.abs(second) <= 1e-7, jnp.abs(second - np.pi) <= 1e-7
        only = jnp.where(none, 2 * half_sum, 2 * half_difference * (-1 if extrinsic else 1))
        outer = [half_sum - half_difference, half_sum + half_difference]
        first, third = outer if extrinsic else outer[::-1]
        degenerate = none | half_turn
        first, third = jnp.where(degenerate, only, first), jnp.where(degenerate, 0, third)
        if not symmetric:
            first, third = (first, third * sign) if extrinsic else (first * sign, third)
            second = second - np.pi / 2
        angles = (jnp.stack([first, second, third], axis=-1) + np.pi) % (2 * np.pi) - np.pi
        return jnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Array:
        """The orthogonal matrices, an array of shape (..., 3, 3)."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_mrp(self) -> Array:
        """The modified Rodrigues parameters, an array of shape (..., 3)."""
        positive = _with_positive_w(self.quat)
        return positive[..., :3] / (1 + positive[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Array:
        """The axes, with norms that are the angles, an array of shape (..., 3)."""
        quat = _with_positive_w(self.quat)
        v, w = quat[..., :3], quat[..., 3:]
        square = jnp.sum(v * v, axis=-1, keepdims=True)
        small = square <= 2.5e-7  # angles up to 0.001
        norm = jnp.sqrt(jnp.where(small, 1, square))
        scale = jnp.where(small, 2 + square / 3 + 3 * square * square / 20, 2 * jnp.arctan2(norm, w) / norm)
        return (jnp.rad2deg(scale) if degrees else scale) * v

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions, an array of shape (..., 4).

        Args:
            canonical: whether of both quaternions of a rotation that is returned whose last element other than zero,
                beginning with w, x, y and z, is positive.
            scalar_first: whether w comes first.
        """
        quat = self.quat
        if canonical:
            negative = jnp.zeros_like(quat[..., :1], dtype=bool)
            for place in (2, 1, 0, 3):
                element = quat[..., place : place + 1]
                negative = (element < 0) | ((element == 0) & negative)
            quat = jnp.where(negative, -quat, quat)
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def inv(self) -> Rotation:
        """The rotations back."""
        return Rotation(jnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], axis=-1))

    def magnitude(self) -> Array:
        """The angles of the rotations, from 0 to pi."""
        return 2 * jnp.arctan2(jnp.linalg.norm(self.quat[..., :3], axis=-1), jnp.abs(self.quat[..., 3]))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation that is nearest to all (Markley et al. 2007).

        Args:
            weights: how much each of them counts.

        Raises:
            TypeError: it is a single rotation.
            ValueError: the weights are not as many as the rotations.
        """
        count = len(self)
        w = jnp.ones(count, self.quat.dtype) if weights is None else jnp.asarray(weights, self.quat.dtype)
        if w.ndim != 1:
            raise ValueError(f"Expected `weights` to be 1 dimensional, got shape {w.shape}.")
        if w.shape[0] != count:
            raise ValueError(
                "Expected `weights` to have number of values equal to number of rotations, got "
                f"{w.shape[0]} values and {count} rotations."
            )
        moments = jnp.matmul(jnp.matrix_transpose(self.quat), w[:, None] * self.quat, precision=lax.Precision.HIGHEST)
        return Rotation(jnp.linalg.eigh(moments).eigenvectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether it is one rotation, instead of an array of them."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Rotations between given ones, each with constant speed to the next. `Slerp.init` makes it.

    Attributes:
        times: of the given rotations.
        timedelta: the time from each to the next.
        rotations: all but the last.
        rotvecs: from each to the next.

    >>> import veery.numpy as jnp
    >>> turn = Slerp.init(jnp.array([0.0, 1.0]), Rotation.from_euler("z", jnp.array([[0.0], [90.0]]), degrees=True))
    >>> turn(0.5).as_rotvec(degrees=True).round(2).tolist()
    [0.0, 0.0, 45.0]
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """The interpolation between rotations.

        Args:
            times: ascending array of shape (n,).
            rotations: n of them, at least two.

        Raises:
            TypeError: these are no rotations.
            ValueError: there are too few, or not as many as times.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = jnp.asarray(times, dtype=rotations.quat.dtype)
        if times.ndim != 1:
            raise ValueError(f"Expected times to be specified in a 1 dimensional array, got {times.ndim} dimensions.")
        if times.shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {times.shape[0]} timestamps."
            )
        before, after = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), before, (before.inv() * after).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at these times, a number or a vector; before the first and after the last it goes on turning.

        Raises:
            ValueError: the times have more than one dimension.
        """
        times = jnp.asarray(times, dtype=self.times.dtype)
        if times.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        place = jnp.clip(jnp.searchsorted(self.times, times) - 1, 0, self.timedelta.shape[0] - 1)
        part = (times - self.times[place]) / self.timedelta[place]
        return self.rotations[place] * Rotation.from_rotvec(self.rotvecs[place] * part[..., None])


def _floats(x: ArrayLike) -> Any:
    (x,) = promote_dtypes_inexact(jnp.asarray(x))
    return jnp.asarray(x, x.dtype)


def _check_axes(seq: str) -> bool:
    """Whether the axes turn with the body."""
    if not 1 <= len(seq) <= 3:
        raise ValueError(f"Expected axis specification to be a non-empty string of upto 3 characters, got {seq}")
    intrinsic = re.fullmatch("[XYZ]+", seq) is not None
    if not intrinsic and re.fullmatch("[xyz]+", seq) is None:
        raise ValueError(f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}")
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return intrinsic


def _product(p: Array, q: Array) -> Array:
    """Of quaternions."""
    x, y = (lax.broadcast_to_rank(a, max(p.ndim, q.ndim)) for a in (p, q))
    v, w = x[..., :3], y[..., :3]
    scalars = x[..., 3:] * y[..., 3:] - jnp.sum(v * w, axis=-1, keepdims=True)
    vectors = x[..., 3:] * w + y[..., 3:] * v + jnp.cross(*jnp.broadcast_arrays(v, w))
    return jnp.concatenate([vectors, scalars], axis=-1)


def _normalized(quat: Array) -> Array:
    return quat / jnp.linalg.norm(quat, axis=-1, keepdims=True)


def _with_positive_w(quat: Array) -> Array:
    return jnp.where(quat[..., 3:] < 0, -quat, quat)
