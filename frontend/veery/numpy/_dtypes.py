"""Element types by their public names, and what one may ask of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.dtypes import (
    can_cast as can_cast,
    finfo as finfo,
    iinfo as iinfo,
    isdtype as isdtype,
    promote_types as promote_types,
    scalar_types,
)

bool_ = scalar_types["bool"]
uint2, uint4 = scalar_types["uint2"], scalar_types["uint4"]
uint8, uint16, uint32, uint64 = (scalar_types[f"uint{bits}"] for bits in (8, 16, 32, 64))
int2, int4 = scalar_types["int2"], scalar_types["int4"]
int8, int16, int32, int64 = (scalar_types[f"int{bits}"] for bits in (8, 16, 32, 64))
float4_e2m1fn = scalar_types["float4_e2m1fn"]
float6_e2m3fn = scalar_types["float6_e2m3fn"]
float6_e3m2fn = scalar_types["float6_e3m2fn"]
float8_e3m4 = scalar_types["float8_e3m4"]
float8_e4m3 = scalar_types["float8_e4m3"]
float8_e4m3b11fnuz = scalar_types["float8_e4m3b11fnuz"]
float8_e4m3fn = scalar_types["float8_e4m3fn"]
float8_e4m3fnuz = scalar_types["float8_e4m3fnuz"]
float8_e5m2 = scalar_types["float8_e5m2"]
float8_e5m2fnuz = scalar_types["float8_e5m2fnuz"]
float8_e8m0fnu = scalar_types["float8_e8m0fnu"]
bfloat16, float16 = scalar_types["bfloat16"], scalar_types["float16"]
float32, float64 = scalar_types["float32"], scalar_types["float64"]
complex64, complex128 = scalar_types["complex64"], scalar_types["complex128"]
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, uint, float_, complex_ = int64, uint64, float64, complex128

generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
flexible, character, object_ = np.flexible, np.character, np.object_
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether dtype `arg1` belongs to the class or dtype `arg2`: `floating`, `integer`, `"float32"`...

    >>> issubdtype(bfloat16, floating), issubdtype("int4", unsignedinteger)
    (True, False)
    """
    return dtypes.issubdtype(arg1, arg2)


def result_type(*args: Any) -> Any:
    """The dtype in which an operation on arrays, scalars and dtypes computes.

    >>> result_type(np.int8(1), 5), result_type(np.dtype("int32"), 5.0)
    (dtype('int8'), dtype('float32'))
    """
    return dtypes.result_type(*args)
