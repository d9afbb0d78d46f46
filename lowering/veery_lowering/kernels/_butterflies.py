"""Fourier transforms of a few complex numbers, each a vector, as MLIR text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from veery_lowering.kernels._arithmetic import Lines, spelled

Number = tuple[str | None, str | None]  # names of the real and the imaginary part; None for zeros


def radices(n: int) -> list[int]:
    """The sizes of transforms that one of n elements consists of: fours, a two or an eight, then odd primes.

    >>> radices(128), radices(60)
    ([4, 4, 8], [4, 3, 5])
    """
    found = []
    while n % 16 == 0 or n == 4:
        found.append(4)
        n //= 4
    if n % 2 == 0:
        found.append(n & -n)
        n //= n & -n
    prime = 3
    while n > 1:
        if n % prime:
            prime += 2
        else:
            found.append(prime)
            n //= prime
    return found or [1]


def roots(exponents: np.ndarray, n: int) -> np.ndarray:
    """exp(-2 pi i exponent / n), complex128, of angles up to 45 degrees: each part is right to the last place.

    >>> roots(np.array([1]), 8).round(3).tolist()
    [(0.707-0.707j)]
    """
    eighths, rest = np.divmod(8 * (exponents % n), n)
    rest = np.where(eighths % 2, n - rest, rest)  # those of odd number from their end
    cosine, sine = (f(rest * (np.pi / (4 * n))) for f in (np.cos, np.sin))
    swapped = np.isin(eighths, (1, 2, 5, 6))
    real, imaginary = np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)
    return np.where(np.isin(eighths, (2, 3, 4, 5)), -real, real) + 1j * np.where(eighths < 4, -imaginary, imaginary)


class Butterflies:
    """Writes transforms, and the arithmetic of complex numbers for them.

    Args:
        out: where the lines go.
        dtype: of real and imaginary parts.
        width: how many elements a vector has.
    """

    def __init__(self, out: Lines, dtype: np.dtype, width: int) -> None:
        self.out, self.dtype = out, dtype
        self.shape = f"{width}x" if width > 1 else ""
        self.type = spelled(dtype, self.shape)

    def transform(self, xs: Sequence[Number]) -> list[Number]:
        """The sums of x_k exp(-2 pi i j k / r), for all j < r."""
        r = len(xs)
        if r == 1:
            return list(xs)
        if r % 2:
            return self._odd(xs)
        even, odd = self.transform(xs[::2]), self.transform(xs[1::2])
        turned = [self._turned(y, j, r) for j, y in enumerate(odd)]
        return [*map(self._add, even, turned), *map(self._subtract, even, turned)]

    def _turned(self, x: Number, j: int, r: int) -> Number:
        """The product with exp(-2 pi i j / r), 2 j < r."""
        if j == 0:
            return x
        if 4 * j == r:
            return x[1], self._minus(None, x[0])
        root = roots(np.asarray(j), r)
        return self.times(x, (self._constant(float(root.real)), self._constant(float(root.imag))))

    def _odd(self, xs: Sequence[Number]) -> list[Number]:
        """Those of an odd size: x_k and x_(r - k) are multiplied with roots that are conjugate."""
        pairs = [(xs[k], xs[-k]) for k in range(1, len(xs) // 2 + 1)]
        sums, differences = [self._add(*pair) for pair in pairs], [self._subtract(*pair) for pair in pairs]
        firsts, lasts = [functools.reduce(self._add, sums, xs[0])], []
        for j in range(1, len(pairs) + 1):
            root = roots(j * np.arange(1, len(pairs) + 1), len(xs))
            even: Number = xs[0]
            odd: Number = None, None
            for sum_, difference, real, imaginary in zip(sums, differences, root.real, root.imag):
                even = self._add(even, self.scaled(sum_, real))
                odd = self._add(odd, self.scaled(difference, imaginary))
            odd = self._minus(None, odd[1]), odd[0]
            firsts.append(self._add(even, odd))
            lasts.append(self._subtract(even, odd))
        return firsts + lasts[::-1]

    def times(self, x: Number, y: Number) -> Number:
        """The product."""
        product: Callable[[int, int], str | None] = lambda i, j: self._of_both("mulf", x[i], y[j])
        return self._minus(product(0, 0), product(1, 1)), self._plus(product(0, 1), product(1, 0))

    def scaled(self, x: Number, factor: float) -> Number:
        """The product with a real number."""
        if factor == 1:
            return x
        real, imaginary = (self._of_both("mulf", part, self._constant(factor)) for part in x)
        return real, imaginary

    def full(self, x: Number) -> list[str]:
        """Both parts, zeros too."""
        return [part or self._constant(0.0) for part in x]

    def unsigned(self, part: str) -> str:
        """A part without negative zeros."""
        return self.out.add(f"arith.addf {part}, {self._constant(0.0)} : {self.type}")

    def _constant(self, value: float) -> str:
        return self.out.constant(value, self.dtype, self.shape)

    def _add(self, x: Number, y: Number) -> Number:
        return self._plus(x[0], y[0]), self._plus(x[1], y[1])

    def _subtract(self, x: Number, y: Number) -> Number:
        return self._minus(x[0], y[0]), self._minus(x[1], y[1])

    def _plus(self, a: str | None, b: str | None) -> str | None:
        return self._of_both("addf", a, b) or a or b

    def _minus(self, a: str | None, b: str | None) -> str | None:
        if a is None and b is not None:
            return self.out.add(f"arith.negf {b} : {self.type}")
        return self._of_both("subf", a, b) or a

    def _of_both(self, name: str, a: str | None, b: str | None) -> str | None:
        """An operation on two parts; None if one of them is zero."""
        if a is None or b is None:
            return None
        return self.out.add(f"arith.{name} {a}, {b} fastmath<contract> : {self.type}")
