"""Records the promotion of dtypes by JAX: promotion.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/core/data/record.py [--check]
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
from jax._src import dtypes
from support.recording import arguments, keep

NAMES = """
    bool uint1 uint2 uint4 uint8 uint16 uint32 uint64 int1 int2 int4 int8 int16 int32 int64 float4_e2m1fn float6_e2m3fn
    float6_e3m2fn float8_e3m4 float8_e4m3 float8_e8m0fnu float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2
    float8_e5m2fnuz bfloat16 float16 float32 float64 complex64 complex128
""".split()
SCALARS = {"True": True, "1": 1, "1.0": 1.0, "1j": 1j}
OPERANDS = [*NAMES, *(f"{name}*" for name in NAMES), *SCALARS]
SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&()*+,-./:;<=>?@[]^_{|}~"
ABOUT = (
    "Promotion as JAX 0.10.2 does it. Each character is an index into results, through symbols; "
    '"!" is a TypePromotionError, a trailing * a weak type.'
)
TRIPLES = 2000


def operand(name: str) -> Any:
    if name in SCALARS:
        return SCALARS[name]
    dtype = np.dtype(name.rstrip("*"))
    if name.endswith("*"):
        return SimpleNamespace(dtype=dtype, aval=SimpleNamespace(dtype=dtype, weak_type=True))
    return dtype


def promoted(*names: str) -> str:
    try:
        dtype, weak = dtypes.lattice_result_type(*map(operand, names))
    except dtypes.TypePromotionError:
        return "!"
    return dtype.name + "*" * weak


def promote_types(a: str, b: str) -> str:
    try:
        return dtypes.promote_types(a, b).name
    except dtypes.TypePromotionError:
        return "!"


def triple(i: int) -> tuple[str, str, str]:
    """Some of all triples, as in test_dtypes.py."""
    n = len(OPERANDS)
    return OPERANDS[i * 17 % n], OPERANDS[(i * 29 + i // n) % n], OPERANDS[(i * 41 + i // 13) % n]


def main() -> None:
    options = arguments(__doc__)
    results: dict[str, int] = {}  # in the order in which they come

    def encoded(names: list[str]) -> str:
        return "".join(SYMBOLS[results.setdefault(name, len(results))] for name in names)

    tables = {}
    warnings.simplefilter("ignore")
    for x64 in (False, True):
        for mode in ("standard", "strict"):
            with jax.enable_x64(x64), jax.numpy_dtype_promotion(mode):
                tables[f"{'x64' if x64 else 'x32'} {mode}"] = {
                    "one": encoded([promoted(a) for a in OPERANDS]),
                    "two": [encoded([promoted(a, b) for b in OPERANDS]) for a in OPERANDS],
                    "three": encoded([promoted(*triple(i)) for i in range(TRIPLES)]),
                    "promote_types": [encoded([promote_types(a, b) for b in NAMES]) for a in NAMES],
                }
    record = {"about": ABOUT, "symbols": SYMBOLS, "results": list(results), "dtypes": NAMES, "operands": OPERANDS}
    text = json.dumps({**record, "tables": tables}, indent=0)
    keep(Path(__file__).with_name("promotion.json"), text, options)


if __name__ == "__main__":
    main()
