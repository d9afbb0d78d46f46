"""Promotion against JAX's recorded tables, and the rest of the dtype module."""

import copy
import json
import pickle
import warnings
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import veery.numpy
from veery._core import dtypes
from veery._core.config import enable_x64, explicit_x64_dtypes, numpy_dtype_promotion

RECORD = json.loads((Path(__file__).parent / "data" / "promotion.json").read_text())
OPERANDS, NAMES = RECORD["operands"], RECORD["dtypes"]
SCALARS = {"True": True, "1": 1, "1.0": 1.0, "1j": 1j}
MODES = [(x64, mode) for x64 in (False, True) for mode in ("standard", "strict")]
ALL = st.sampled_from(dtypes.ALL_DTYPES)


def known(operand):
    """Whether the installed ml_dtypes has the operand's dtype (1-bit integers are recent)."""
    return operand in SCALARS or operand.rstrip("*") in {dtype.name for dtype in dtypes.ALL_DTYPES}


def operand(name):
    """A value of the recorded kind: a Python scalar, a dtype, or something weakly typed."""
    if name in SCALARS:
        return SCALARS[name]
    dtype = np.dtype(name.rstrip("*"))
    if name.endswith("*"):
        return SimpleNamespace(dtype=dtype, aval=SimpleNamespace(dtype=dtype, weak_type=True))
    return dtype


def promoted(*names):
    try:
        dtype, weak = dtypes.lattice_result_type(*map(operand, names))
    except dtypes.TypePromotionError:
        return "!"
    return dtype.name + "*" * weak


def decoded(symbols):
    return [RECORD["results"][RECORD["symbols"].index(symbol)] for symbol in symbols]


def triple(i):
    n = len(OPERANDS)
    return OPERANDS[i * 17 % n], OPERANDS[(i * 29 + i // n) % n], OPERANDS[(i * 41 + i // 13) % n]


@pytest.fixture(params=MODES, ids=lambda mode: f"{'x64' if mode[0] else 'x32'}-{mode[1]}")
def table(request):
    x64, mode = request.param
    with warnings.catch_warnings(), enable_x64(x64), numpy_dtype_promotion(mode):
        warnings.filterwarnings("ignore", "Explicitly requested dtype")
        yield RECORD["tables"][f"{'x64' if x64 else 'x32'} {mode}"]


def test_single_operands_promote_as_recorded(table):
    assert [promoted(a) for a in OPERANDS if known(a)] == [
        r for a, r in zip(OPERANDS, decoded(table["one"])) if known(a)
    ]


def test_all_pairs_promote_as_recorded(table):
    for a, row in zip(OPERANDS, table["two"]):
        expected = dict(zip(OPERANDS, decoded(row)))
        if known(a):
            assert {b: promoted(a, b) for b in OPERANDS if known(b)} == {b: expected[b] for b in OPERANDS if known(b)}


def test_triples_promote_as_recorded(table):
    for i, expected in enumerate(decoded(table["three"])):
        if all(map(known, triple(i))):
            assert promoted(*triple(i)) == expected, triple(i)


def test_promote_types_as_recorded(table):
    def promote(a, b):
        try:
            return dtypes.promote_types(a, b).name
        except dtypes.TypePromotionError:
            return "!"

    for a, row in zip(NAMES, table["promote_types"]):
        for b, expected in zip(NAMES, decoded(row)):
            if known(a) and known(b):
                assert promote(a, b) == expected, (a, b)


@given(st.lists(st.sampled_from([name for name in OPERANDS if known(name)]), min_size=1, max_size=4), st.randoms())
@settings(max_examples=200, deadline=None)
def test_promotion_ignores_order_and_repetition(names, random):
    shuffled = names + [random.choice(names)]
    random.shuffle(shuffled)
    with enable_x64(True):
        assert promoted(*shuffled).rstrip("*") == promoted(*names).rstrip("*")


@given(ALL, ALL, st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_meeting_of_two_dtypes_takes_both(a, b, x64):
    with enable_x64(x64):
        try:
            meeting = dtypes.promote_types(a, b)
        except dtypes.TypePromotionError:
            return
        assert dtypes.promote_types(a, meeting) == meeting
        assert dtypes.promote_types(meeting, b) == meeting


@given(ALL)
@settings(deadline=None)
def test_python_scalars_keep_the_kind_of_an_array(dtype):
    kind = dtypes.scalar_type_of(dtype)
    with enable_x64(True):
        assert dtypes.result_type(np.zeros(2, dtype), kind(1)) == dtype


def test_result_type_of_values():
    assert dtypes.result_type(np.int8(1), 300) == np.int8
    assert dtypes.result_type(np.zeros(2, np.int32), 5.0) == np.float32
    assert dtypes.result_type(np.float64(1)) == np.float32
    assert dtypes.result_type(None, np.dtype("float16")) == np.float32
    assert dtypes.result_type(1, return_weak_type_flag=True) == (np.dtype("int32"), True)
    with pytest.raises(ValueError, match="at least one array or dtype"):
        dtypes.result_type()
    with pytest.raises(TypeError, match="Cannot determine dtype of \\[1, 2\\]"):
        dtypes.result_type([1, 2])
    with pytest.raises(TypeError, match="'foo' not understood"):
        dtypes.result_type("foo")


@pytest.mark.parametrize(
    "a, b, words",
    [
        ("int4", "int8", "4-bit integers do not support implicit promotion"),
        ("float8_e4m3fn", "float32", "8-bit floats do not support implicit promotion"),
        ("float4_e2m1fn", "float32", "4-bit floats do not support implicit promotion"),
        ("float4_e2m1fn", "float8_e5m2", "8-bit floats do not support implicit promotion"),
    ],
)
def test_promotion_errors_say_what_to_do(a, b, words):
    with pytest.raises(dtypes.TypePromotionError, match=f"\\('{a}', '{b}'\\) have no available.*{words}.*astype"):
        dtypes.promote_types(a, b)


def test_strict_promotion_names_the_setting():
    with numpy_dtype_promotion("strict"):
        with pytest.raises(dtypes.TypePromotionError, match="when jax_numpy_dtype_promotion=strict"):
            dtypes.result_type(np.zeros(2, np.int8), np.zeros(2, np.int16))
        assert dtypes.result_type(np.zeros(2, np.int8), 1) == np.int8


def test_float0_and_keys_do_not_promote():
    for dtype in (dtypes.float0, dtypes.key_dtype()):
        assert dtypes.result_type(dtype) == dtype
    with pytest.raises(ValueError, match="not a valid dtype for JAX type promotion"):
        dtypes.result_type(dtypes.key_dtype(), 1)
    with pytest.raises(TypeError, match="do not support any operations by design"):
        dtypes.result_type(dtypes.float0, 1)


def test_canonicalize():
    for wide, narrow in [("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"), ("complex128", "complex64")]:
        assert dtypes.canonicalize_dtype(wide) == narrow
        with enable_x64(True):
            assert dtypes.canonicalize_dtype(wide) == wide
    assert dtypes.canonicalize_dtype(">f4") == np.float32 and dtypes.canonicalize_dtype(">f4").isnative
    assert dtypes.canonicalize_dtype(float) == np.float32
    assert dtypes.canonicalize_dtype("int4") == ml_dtypes.int4
    key = dtypes.key_dtype()
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) is key
    with pytest.raises(ValueError, match="extended dtype key<fry>"):
        dtypes.canonicalize_dtype(key)


def test_explicit_64_bit_dtypes_warn_at_the_users_line():
    with pytest.warns(UserWarning, match="Explicitly requested dtype float64 requested in zeros is not available, and "
                      "will be truncated to dtype float32") as caught:  # fmt: skip
        assert dtypes.check_and_canonicalize_user_dtype("float64", "zeros") == np.float32
    assert caught[0].filename == __file__
    with enable_x64(True):
        assert dtypes.check_and_canonicalize_user_dtype(np.int64) == np.int64
    with explicit_x64_dtypes("error"), pytest.raises(ValueError, match="float64 requested in zeros is not available"):
        dtypes.check_user_dtype_supported("float64", "zeros")
    with explicit_x64_dtypes("allow"):
        assert dtypes.check_and_canonicalize_user_dtype("float64") == np.float64
    assert dtypes.check_and_canonicalize_user_dtype(float) == np.float32  # Python's own types never warn
    assert veery.numpy.result_type(veery.numpy.float64) == np.float32  # nor do JAX's in promotions
    with pytest.warns(UserWarning, match="Explicitly requested dtype float64"):
        assert veery.numpy.result_type(np.float64) == np.float32


@pytest.mark.parametrize("dtype", ["S3", object, "M8[s]", np.longdouble])
def test_dtypes_that_arrays_cannot_have(dtype):
    with pytest.raises(TypeError, match="JAX only supports number, bool, and string dtypes, got dtype .* in zeros"):
        dtypes.check_user_dtype_supported(dtype, "zeros")
    with pytest.raises(TypeError, match="not a valid"):
        dtypes.dtype_of(np.zeros(1, dtype))
    with pytest.raises(TypeError, match="not a valid"):
        dtypes.check_valid_dtype(np.dtype(dtype))


def test_dtype_of_values():
    class Color(int):
        pass

    assert [dtypes.dtype_of(x) for x in (True, 1, 1.0, 1j)] == ["bool", "int32", "float32", "complex64"]
    assert dtypes.dtype_of(Color(3)) == np.int32
    assert dtypes.dtype_of(np.float64(3)) == np.float32 and not dtypes.is_python_scalar(np.float64(3))
    assert dtypes.dtype_of(np.zeros(2, ">i2")) == np.int16
    for x in ([1], object(), None, np.float32):
        with pytest.raises(TypeError, match="Cannot determine dtype of"):
            dtypes.dtype_of(x)
    numbers = (1, 1.0, True, np.int8(1), np.float64(1))
    assert [dtypes.is_weakly_typed(x) for x in numbers] == [True] * 2 + [False] * 3


def test_issubdtype():
    key = dtypes.key_dtype()
    true = [
        (dtypes.bfloat16, np.floating), ("int4", np.signedinteger), ("uint2", np.integer), (key, dtypes.prng_key),
        (key, dtypes.extended), (key, np.generic), (dtypes.prng_key, dtypes.extended), (key, key),
        ("float32", "float32"),
        (np.int64, int), (float, np.floating), (np.number, np.generic), (dtypes.scalar_types["float32"], np.float32),
    ]  # fmt: skip
    false = [
        (dtypes.bfloat16, np.complexfloating), ("int4", np.int8), ("uint4", np.signedinteger), (key, np.number),
        ("float32", dtypes.extended), (np.int32, int), (np.inexact, np.floating), ("bool", np.number),
        (dtypes.bfloat16, np.float16), (dtypes.float0, np.floating), (dtypes.prng_key, key),
    ]  # fmt: skip
    assert all(dtypes.issubdtype(a, b) for a, b in true)
    assert not any(dtypes.issubdtype(a, b) for a, b in false)
    with pytest.raises(TypeError):
        dtypes.issubdtype(1, np.floating)


@given(ALL)
@settings(deadline=None)
def test_each_dtype_is_of_one_kind(dtype):
    kinds = ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")
    assert sum(dtypes.isdtype(dtype, kind) for kind in kinds) == 1
    assert dtypes.isdtype(dtype, "numeric") == (dtype != np.bool_)
    assert dtypes.isdtype(dtype, (dtype, "bool"))
    classes = (np.bool_, np.signedinteger, np.unsignedinteger, np.floating, np.complexfloating)
    assert [dtypes.isdtype(dtype, kind) for kind in kinds] == [dtypes.issubdtype(dtype, c) for c in classes]


def test_isdtype_errors():
    with pytest.raises(ValueError, match="Unrecognized kind='foo'"):
        dtypes.isdtype("float32", "foo")
    for kind in (3, np.floating):
        with pytest.raises(TypeError, match="Expected kind to be a dtype, string, or tuple"):
            dtypes.isdtype("float32", kind)
    with pytest.raises(TypeError):
        dtypes.isdtype(dtypes.key_dtype(), "numeric")


def test_casts_and_limits():
    assert dtypes.can_cast("int8", "int16") and not dtypes.can_cast("float32", "bfloat16")
    assert dtypes.safe_to_cast(1, "int8") and dtypes.safe_to_cast("int32", "float32")
    assert not dtypes.safe_to_cast("float32", "float16")
    assert dtypes.finfo("bfloat16").bits == 16 and dtypes.iinfo("int4").max == 7
    assert [dtypes.itemsize_bits(x) for x in ("int4", "uint2", bool, "bfloat16", "complex64")] == [4, 2, 8, 16, 64]
    assert dtypes.supports_inf("float32") and not dtypes.supports_inf("float8_e4m3fn")
    with pytest.raises(ValueError):
        dtypes.itemsize_bits(dtypes.key_dtype())


def test_kinds_to_compute_in():
    assert dtypes.to_inexact_dtype("int8") == np.float32 and dtypes.to_inexact_dtype("int64") == np.float64
    assert dtypes.to_inexact_dtype("bfloat16") == dtypes.bfloat16
    assert dtypes.to_floating_dtype("complex64") == np.float32
    assert dtypes.to_complex_dtype("float64") == np.complex128 and dtypes.to_complex_dtype("bfloat16") == np.complex64
    assert dtypes.to_numeric_dtype(bool) == np.int32 and dtypes.to_numeric_dtype("uint8") == np.uint8
    assert dtypes.primal_tangent_dtype(np.dtype("float32")) == np.float32
    assert dtypes.primal_tangent_dtype(np.dtype("int32")) == dtypes.float0
    for convert in (dtypes.to_inexact_dtype, dtypes.to_complex_dtype, dtypes.to_numeric_dtype):
        with pytest.raises(TypeError):
            convert(dtypes.key_dtype())


def test_short_names():
    names = {"float32": "f32", "bfloat16": "bf16", "int8": "i8", "uint4": "u4", "complex64": "c64", "bool": "bool"}
    names |= {"float8_e4m3fn": "f8_e4m3fn"}
    assert {name: dtypes.short_dtype_name(np.dtype(name)) for name in names} == names
    assert dtypes.short_dtype_name(dtypes.key_dtype()) == "key<fry>"
    assert dtypes.short_dtype_name(dtypes.float0) == "float0"


def test_key_dtype():
    key = dtypes.key_dtype()
    assert key is dtypes.key_dtype("threefry2x32") and str(key) == repr(key) == "key<fry>"
    assert pickle.loads(pickle.dumps(key)) is key and copy.deepcopy(key) is key
    assert key.physical == np.uint64 and key.itemsize == 8 and key.impl == "threefry2x32"
    assert key != np.dtype("uint64") and np.dtype("uint64") != key
    with pytest.raises(ValueError, match="unrecognized PRNG implementation 'x'"):
        dtypes.key_dtype("x")


def test_scalar_types():
    float32, bfloat16 = dtypes.scalar_types["float32"], dtypes.scalar_types["bfloat16"]
    assert np.dtype(float32) == np.float32 and np.dtype(bfloat16) == ml_dtypes.bfloat16
    assert float32 == np.float32 and np.dtype("float32") == float32 and float32 == np.dtype("float32")
    assert float32 != dtypes.scalar_types["float64"] and float32 != "float32" and float32 != "float"
    assert not (float32 == np.float64 or float32 == dtypes.float0)
    assert float32 in {np.float32} and isinstance(np.float32(1), float32) and isinstance(float32, type)
    assert repr(float32) == "<class 'veery.numpy.float32'>"
    assert dtypes.scalar_types["double"] is dtypes.scalar_types["float64"]


def test_public_names():
    import veery.dtypes

    assert veery.dtypes.bfloat16 is ml_dtypes.bfloat16 and veery.dtypes.result_type is dtypes.result_type
    assert dtypes.TypePromotionError.__module__ == "veery.dtypes"


def test_dtypes_of_the_user_name_the_way_out():
    class Meta(dtypes.ExtendedDType):
        type, name, physical = dtypes.extended, "meta32", np.dtype("float32")

    with pytest.raises(
        ValueError, match=r"from float32 to meta32: .*`veery.experimental.hijax` has types of one's own"
    ):
        veery.lax.convert_element_type(np.float32(1), Meta())
    with pytest.raises(ValueError, match=r"from float32 to key<fry>$"):
        veery.lax.convert_element_type(np.float32(1), dtypes.key_dtype())
