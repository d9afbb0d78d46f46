"""What NumPy and StableHLO call the types of elements, for the compiler's process, too, which does not load NumPy."""

from __future__ import annotations

from veery_lowering.mlir import ir

# NumPy or ml_dtypes name: StableHLO element type
SPELLINGS = {
    "bool": "i1",
    **{f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (2, 4, 8, 16, 32, 64)},
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3": "f8E4M3",
    "float8_e3m4": "f8E3M4",
    "float4_e2m1fn": "f4E2M1FN",
}
_NAMES = {spelling: name for name, spelling in SPELLINGS.items()}


# By what the bindings make of a type: 0.6 us where its text takes 5, some hundred times in a compilation.
_FLOATS = {ir.F16Type: "float16", ir.BF16Type: "bfloat16", ir.F32Type: "float32", ir.F64Type: "float64"}
_INTEGERS = {(1, False): "bool"} | {(n, u): f"{'u' * u}int{n}" for n in (2, 4, 8, 16, 32, 64) for u in (False, True)}


def dtype_name(type_: ir.Type) -> str:
    """The name of the NumPy dtype of an MLIR element type or tensor type."""
    if isinstance(type_, ir.RankedTensorType):
        type_ = type_.element_type
    name = _FLOATS.get(type(type_))
    if name is None and isinstance(type_, ir.IntegerType):
        name = _INTEGERS.get((type_.width, type_.is_unsigned))
    return name or _NAMES[str(type_)]
