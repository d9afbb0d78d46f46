"""The text of `--args`: what it describes, and where an error points."""

from __future__ import annotations

import numpy as np
import pytest

from veery import ShapeDtypeStruct
from veery._cli.application import InputError
from veery._cli.arguments import concrete, dtype_of_name, parse


def f32(*shape):
    return ShapeDtypeStruct(shape, np.float32)


READ = {
    "": (),
    "f32": (f32(),),
    "f32[], f32 [ 3 ],": (f32(), f32(3)),
    "bf16[2], u8, bool": (
        ShapeDtypeStruct((2,), "bfloat16"),
        ShapeDtypeStruct((), "uint8"),
        ShapeDtypeStruct((), bool),
    ),
    "{w: f32[5,3], 'a b': f32, in: 1, 0: 2,}": ({"w": f32(5, 3), "a b": f32(), "in": 1, "0": 2},),
    "[f32[1], [], ()], (f32), (f32, 1,)": ([f32(1), [], ()], (f32(),), (f32(), 1)),
    "None, true, False, -2, 1e3, .5": (None, True, False, -2, 1000.0, 0.5),
    "f32[(2,3)], f32[2 * 3]": (f32(2, 3), f32(6)),
}


@pytest.mark.parametrize("text", READ)
def test_values(text):
    assert parse(text) == (READ[text], {}, ())


def test_keywords_and_static_arguments():
    assert parse("'tanh', f32, k=3, axis=None, f32[2], \"x\"") == (
        ("tanh", f32(), f32(2), "x"),
        {"k": 3, "axis": None},
        (0, 3),
    )


def test_dimensions_are_of_one_scope():
    first, second = parse("f32[b, 2*b+1], f32[max(b, 3)]").args
    assert str(first.shape) == "(b, 2*b + 1)"
    assert first.shape[0].scope is second.shape[0].scope


def test_dtypes_by_name():
    assert str(dtype_of_name("key<fry>")) == "key<fry>"
    assert [str(dtype_of_name(name)) for name in ("c64", "float16", "f8_e4m3fn")] == [
        "complex64",
        "float16",
        "float8_e4m3fn",
    ]
    assert dtype_of_name("float") is dtype_of_name("f33") is None


WRONG = {
    "f32[3], f33[2]": "'f33' is no dtype at column 9",
    "None[3]": "'None' is no dtype at column 1",
    "f32[2": "expected ] at column 6",
    "f32[[2]]": "expected ], got '[' at column 5",
    "f32[2,b*]": "cannot read 'b*' at column 4",
    "f32[3], f32[-2]": "a dimension must not be negative, got [-2] at column 12",
    "f32 $": "unexpected '$' at column 5",
    "3f": "unexpected '3' at column 1",
    "f32 f32": "expected ',' or '=', got 'f32' at column 5",
    "{w f32}": "expected ':', got 'f32' at column 4",
    "{w: f32": "expected ',' or '}' at column 8",
    "{,}": "expected a key or '}', got ',' at column 2",
    "(,)": "expected a type or ')', got ',' at column 2",
    "f32[2]]": "expected ',', got ']' at column 7",
    "k=": "expected a type at column 3",
    "f32,\n,": "expected a type, got ',' at column 6",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_point_at_the_column(text):
    with pytest.raises(InputError) as error:
        parse(text)
    assert str(error.value).startswith("--args: ") and f'{WRONG[text]} of "{text}"; write types' in str(error.value)


def test_arrays_of_types():
    x, rest = concrete((f32(4, 3), [ShapeDtypeStruct((2,), "int8"), "name"]))
    assert x.shape == (4, 3) and x.dtype == np.float32 and len(set(x.flat)) == 12
    assert set(rest[0]) <= {0, 1} and rest[0].dtype == np.int8 and rest[1] == "name"
    with pytest.raises(InputError, match="symbolic"):
        concrete(parse("f32[n]").args)
