"""Which products read copies of their operands that lie in tiles (IREE's data tiling).

Measured on two cores with AVX-512, plain and tiled, times in us, of float32:

| m x k x n | plain | tiled | | m x k x n | plain | tiled |
|---|---|---|---|---|---|---|
| 100x100x100 | 87 | 44 | | 128x128x128 | 43 | 50 |
| 200x200x200 | 202 | 113 | | 256x256x256 | 163 | 191 |
| 300x500x200 | 1364 | 475 | | 512x512x512 | 1406 | 1405 |
| 600x600x600 | 6113 | 2773 | | 1000x1000x1000 | 104000 | 34000 |
| 128x500x512 | 406 | 466 | | 128x512x500 | 864 | 500 |
| 1000x100x64 | 106 | 147 | | 500x500x80 | 498 | 302 |
| 16x1000x1000 | 840 | 767 | | 48x1000x1000 | 3281 | 1128 |
| 1000x1000x32 | 393 | 668 | | 1000x1000x1 | 241 | 372 |
| 256x256 by a transposed one | 291 | 231 | | 24 of 100x100x100 | 1107 | 573 |

Where rows of the result are pairs of whole registers plain code is as fast, and else it is slow. Copies cost more than
they bring where there are few rows or columns. Of float16 a product of 200x200x200 takes 450 and 207 us; of float64 and
of integers nothing is tiled, and all takes longer (252 and 334). A compilation takes a quarter longer.
"""

from __future__ import annotations

from veery_lowering.targets.target import Product

_DTYPES = frozenset(("float32", "float16", "bfloat16"))
_ROWS, _COLUMNS, _SUMMED = 28, 72, 16  # fewer are not worth copies
_WORK = 80**3
_WHOLE = 32  # elements of float32 in two registers of AVX-512
_LARGE = 384  # where blocks no longer stay in cache


def gains_from_tiling(product: Product, transposed: bool) -> bool:
    """Whether a product of matrices is faster on copies of its operands.

    Args:
        product: its sizes and dtype.
        transposed: whether the second operand's columns lie along k.
    """
    m, n, k = product.m, product.n, product.k
    if product.dtype not in _DTYPES or m < _ROWS or n < _COLUMNS or k < _SUMMED or m * n * k < _WORK:
        return False
    return transposed or n % _WHOLE != 0 or min(m, n, k) >= _LARGE
