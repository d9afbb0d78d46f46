"""Foreign functions: callbacks of ctypes, and functions in C where there is a compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import ffi, lax
from veery.extend.core import Primitive
from veery.interpreters import mlir
from veery_runtime.foreign import abi

F32 = np.float32
struct = veery.ShapeDtypeStruct
HANDLERS = []  # which ctypes must not free


def register(name, function, stages=None, version=(0, 3)):
    """A Python function of a frame as a foreign function, which returns the address of an error or None."""

    def handler(function):
        def call(address):
            frame = abi.Frame.from_address(address)
            if not frame.extension_start:
                return function(frame)
            extension = abi.MetadataExtension.from_address(frame.extension_start)
            told = abi.Metadata.from_address(extension.metadata).version
            told.major, told.minor = version
            return None

        HANDLERS.append(abi.HANDLER(call))
        return ffi.pycapsule(HANDLERS[-1])

    if stages is None:
        ffi.register_ffi_target(name, handler(function))
    else:
        ffi.register_ffi_target(name, {stage: handler(f) for stage, f in stages.items()})


def buffers(values):
    """The arguments or results of a frame: their dtypes by XLA's numbers, shapes and addresses."""
    found = []
    for address in (ctypes.c_void_p * values.size).from_address(values.values or 1):
        buffer = abi.Buffer.from_address(address)
        shape = tuple((ctypes.c_int64 * buffer.rank).from_address(buffer.dims)) if buffer.rank else ()
        found.append((buffer.dtype, shape, buffer.data))
    return found


def call_back(frame, name, kind, **fields):
    """Call a function of the frame's table; returns its error and the struct."""
    given = kind(struct_size=ctypes.sizeof(kind), **fields)
    function = getattr(abi.Api.from_address(frame.api), name)
    return abi.HANDLER(function)(ctypes.addressof(given)), given


def attribute_values(attributes):
    found = {}
    for i in range(attributes.size):
        kind = (ctypes.c_int * attributes.size).from_address(attributes.types)[i]
        name = abi.Span.from_address((ctypes.c_void_p * attributes.size).from_address(attributes.names)[i])
        value = (ctypes.c_void_p * attributes.size).from_address(attributes.values)[i]
        if kind == abi.DICTIONARY:
            read = attribute_values(abi.Attributes.from_address(value))
        elif kind == abi.STRING:
            span = abi.Span.from_address(value)
            read = ctypes.string_at(span.address, span.size)
        elif kind == abi.SCALAR:
            scalar = abi.Scalar.from_address(value)
            read = scalar.dtype, ctypes.string_at(scalar.value, 8 if scalar.dtype in (5, 12) else 1)
        else:
            array = abi.Array.from_address(value)
            read = array.dtype, array.size, ctypes.string_at(array.data, array.size * 2)
        found[ctypes.string_at(name.address, name.size).decode()] = read
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("foreign") / "foreign.so"
    source = Path(__file__).with_name("foreign.c")
    flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I", ffi.include_dir()]
    subprocess.run([compiler, *flags, str(source), "-o", str(made)], check=True)
    lib = ctypes.CDLL(str(made))
    for name in ("scaled", "rows", "numbered", "in_place", "counted"):
        ffi.register_ffi_target(f"c.{name}", ffi.pycapsule(getattr(lib, name)))
    ffi.register_ffi_target("c.without_frame", ffi.pycapsule(lib.without_frame), api_version=0)
    return lib


THREE = F32(3)


def scaled(x, factor=THREE, **how):
    return ffi.ffi_call("c.scaled", struct(x.shape, x.dtype), **how)(x, factor=factor)


X = np.arange(6, dtype=F32).reshape(2, 3)


def test_functions_in_c_are_called_eagerly_in_jit_and_in_loops(library):
    np.testing.assert_array_equal(scaled(X), 3 * X)
    np.testing.assert_array_equal(veery.jit(lambda x: scaled(x + 1) - 1)(X), 3 * (X + 1) - 1)
    np.testing.assert_array_equal(veery.jit(lambda x: lax.fori_loop(0, 3, lambda _, x: scaled(x), x))(X), 27 * X)
    assert scaled(X[:0]).shape == (0, 3)
    large = np.arange(2**21, dtype=F32)  # on other threads
    np.testing.assert_array_equal(veery.jit(lambda x: scaled(scaled(x) + x))(large), 3 * (3 * large + large))


def test_results_are_one_array_or_as_many_as_were_declared(library):
    with veery.enable_x64(True):
        x, y = np.arange(6.0).reshape(2, 3), np.array([2.0, 4.0])
        declared = (struct((2,), float), struct((3,), np.int64))
        sums, shapes = out = ffi.ffi_call("c.rows", declared)(x, y)
        assert type(out) is tuple and type(ffi.ffi_call("c.rows", list(declared))(x, y)) is list
        np.testing.assert_array_equal(sums, x.sum(1) / y)
        np.testing.assert_array_equal(shapes, [2, 3, 2])


@pytest.mark.parametrize(
    "method, shapes",
    [
        ("sequential", [2, 3, 2]),
        ("sequential_unrolled", [2, 3, 2]),
        ("expand_dims", [5, 2, 3, 1, 2]),
        ("broadcast_all", [5, 2, 3, 5, 2]),
        ("legacy_vectorized", [5, 2, 3, 2]),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_vmap_calls_as_the_method_says(library, method, shapes, compiled):
    with veery.enable_x64(True):
        x, y = np.arange(30.0).reshape(2, 5, 3), np.array([2.0, 4.0])
        count = 3 if method.startswith("seq") else len(shapes)
        declared = (struct((2,), float), struct((count,), np.int64))
        call = veery.vmap(ffi.ffi_call("c.rows", declared, vmap_method=method), in_axes=(1, None))
        sums, seen = (veery.jit(call) if compiled else call)(x, y)
        np.testing.assert_allclose(sums, x.sum(2).T / y, rtol=1e-15)
        # A batched call fills the first numbers of the batch of results.
        np.testing.assert_array_equal(np.asarray(seen).ravel()[: len(shapes)], shapes)


def test_vmap_of_what_says_no_method_is_refused(library):
    with pytest.raises(NotImplementedError, match="vmap is only supported for the ffi_call primitive when vmap_method"):
        veery.vmap(scaled)(X)
    with pytest.raises(ValueError, match="vmap_method must be on of the allowed methods"):
        ffi.ffi_call("c.scaled", struct((), F32), vmap_method="parallel")
    aliased = ffi.ffi_call("c.rows", struct((3,), F32), vmap_method="expand_dims", input_output_aliases={0: 0})
    with pytest.raises(NotImplementedError, match="argument 0 is the same for all elements"):
        veery.vmap(aliased, in_axes=(None, 0))(X[0], X)


def test_derivatives_are_those_of_a_custom_rule(library):
    with pytest.raises(ValueError, match="The FFI call to `c.scaled` cannot be differentiated"):
        veery.grad(lambda x: scaled(x).sum())(X)
    f = veery.custom_vjp(lambda x: scaled(x, F32(2), vmap_method="broadcast_all"))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (scaled(ct, F32(2), vmap_method="broadcast_all"),))
    np.testing.assert_array_equal(veery.jit(veery.grad(lambda x: (f(x) ** 2).sum()))(X), 8 * X)
    np.testing.assert_array_equal(veery.vmap(veery.grad(lambda x: (f(x) ** 2).sum()))(X), 8 * X)


def test_layouts_are_the_order_of_elements_in_memory(library):
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    declared = [struct((2, 3), np.int32), struct((6,), np.int32)]
    call = ffi.ffi_call("c.numbered", declared, input_layouts=[(1, 0)], output_layouts=[(1, 0), None])
    numbers, seen = veery.jit(call)(x)
    np.testing.assert_array_equal(numbers, np.arange(6).reshape(3, 2).T)
    np.testing.assert_array_equal(seen, x.T.ravel())
    batched = ffi.ffi_call(
        "c.numbered", declared, input_layouts=[(1, 0)], output_layouts=[(1, 0), None], vmap_method="broadcast_all"
    )
    numbers, seen = veery.vmap(batched)(np.stack([x, x + 6]))
    np.testing.assert_array_equal(numbers, np.arange(12).reshape(2, 3, 2).transpose(0, 2, 1))
    np.testing.assert_array_equal(seen, [x.T.ravel(), x.T.ravel() + 6])
    with pytest.raises(ValueError, match=r"The number of input arguments \(1\) must equal the number of input layouts"):
        ffi.ffi_call("c.numbered", declared, input_layouts=[None, None])(x)
    with pytest.raises(ValueError, match="a layout names each of the 2 axes once"):
        ffi.ffi_call("c.numbered", declared, input_layouts=[(0, 0)])(x)


def test_an_aliased_result_is_in_the_memory_of_its_argument(library):
    x = jnp.asarray(X)
    for call in (aliased := lambda x: ffi.ffi_call("c.in_place", struct(x.shape, F32), input_output_aliases={0: 0})(x),
                 veery.jit(aliased)):  # fmt: skip
        np.testing.assert_array_equal(call(x), X + 1)
        np.testing.assert_array_equal(x, X)
    with pytest.raises(RuntimeError, match="INTERNAL: not the same memory"):
        np.asarray(ffi.ffi_call("c.in_place", struct(x.shape, F32))(x))


@pytest.mark.parametrize(
    "aliases, message",
    [
        ({5: 0}, r"'5:0' with input index 5 outside the range \[0, 1\)"),
        ({0: 1}, r"'0:1' with output index 1 outside the range \[0, 1\)"),
        ({0: 0}, "an output with a different abstract value"),
    ],
)
def test_aliases_that_do_not_fit_are_refused(aliases, message):
    with pytest.raises(ValueError, match=message):
        ffi.ffi_call("c.in_place", struct((4,), F32), input_output_aliases=aliases)(jnp.ones(3))


def test_calls_with_side_effects_are_made_each_time(library):
    call = lambda: ffi.ffi_call("c.counted", struct((), np.int32), has_side_effect=True)()
    unread = veery.jit(lambda x: (call(), x)[1])
    before = int(call())
    for _ in range(3):
        unread(X)
    veery.effects_barrier()
    assert int(call()) == before + 4
    twice = veery.jit(lambda: (call(), call()))
    assert sorted(map(int, twice())) == [before + 5, before + 6]


def test_functions_without_frames(library):
    declared = [struct((), F32), struct((), F32)]
    how = {"custom_call_api_version": 3, "legacy_backend_config": "abc"}
    assert [float(x) for x in ffi.ffi_call("c.without_frame", declared, **how)(F32(2))] == [5, ord("a")]
    with pytest.raises(RuntimeError, match="c.without_frame reports a failure"):
        np.asarray(ffi.ffi_call("c.without_frame", declared, **how)(F32(-2))[0])
    with pytest.raises(ValueError, match="attributes requires a custom call API version of at least 4"):
        ffi.ffi_call("c.without_frame", declared, **how)(F32(2), factor=1)
    with pytest.raises(ValueError, match="legacy_backend_config parameter requires custom_call_api_version < 4"):
        ffi.ffi_call("c.without_frame", declared, legacy_backend_config="abc")
    with pytest.raises(RuntimeError, match="NOT_FOUND: No FFI handler registered for c.without_frame"):
        np.asarray(ffi.ffi_call("c.without_frame", declared)(F32(2))[0])


@pytest.mark.parametrize("compiled", [False, True])
def test_errors_are_raised_where_results_are_read(library, compiled):
    call = lambda x, **k: ffi.ffi_call("c.scaled", struct((3,), F32))(x, **k)
    for x, attributes, message in (
        (X[0], {}, "INVALID_ARGUMENT: expected one array, and factor"),
        (X[0], {"factor": 2.0}, "INVALID_ARGUMENT: expected one array, and factor"),  # which is a float64
        (np.arange(3), {"factor": F32(2)}, "UNIMPLEMENTED: expected float32"),
    ):
        function = lambda x, a=attributes: call(x, **a)
        with pytest.raises(veery.errors.JaxRuntimeError, match=message):
            np.asarray((veery.jit(function) if compiled else function)(x))
    with pytest.raises(veery.errors.JaxRuntimeError, match="NOT_FOUND: No FFI handler registered for unheard_of"):
        np.asarray(veery.jit(ffi.ffi_call("unheard_of", struct((), F32)))())


def test_lowering_rules_of_other_primitives_can_call_them(library):
    tripled = Primitive("test_tripled")
    tripled.def_abstract_eval(lambda x: x)
    mlir.register_lowering(tripled, ffi.ffi_lowering("c.scaled", backend_config={"factor": F32(3)}))
    np.testing.assert_array_equal(veery.jit(tripled.bind)(jnp.asarray(X)), 3 * X)
    by = Primitive("test_multiplied")
    by.def_abstract_eval(lambda x, factor: x)
    mlir.register_lowering(by, ffi.ffi_lowering("c.scaled"))
    np.testing.assert_array_equal(veery.jit(lambda x: by.bind(x, factor=F32(5)))(jnp.asarray(X)), 5 * X)
    with pytest.raises(TypeError, match="takes no argument 'result_types' here"):
        ffi.ffi_lowering("c.scaled", result_types=[])
    with pytest.raises(ValueError, match="backend_config must be a dictionary"):
        ffi.ffi_lowering("c.scaled", backend_config="text")


def test_verification_calls_them_too(library):
    veery.config.update("veery_verify", "always")
    np.testing.assert_array_equal(veery.jit(lambda x: scaled(x) + 1)(X), 3 * X + 1)


def test_artifacts_cannot_contain_them():
    call = veery.jit(ffi.ffi_call("c.scaled", struct((3,), F32)))
    with pytest.raises(Exception, match="which a saved program cannot contain"):
        veery.export.export(call)(X[0])


# By callbacks of ctypes, which need no compiler.

NAMES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def test_arrays_of_each_dtype_arrive_with_their_shapes():
    seen = []

    def copy(frame):
        (x, y) = seen[:] = *buffers(frame.args), *buffers(frame.rets)
        ctypes.memmove(y[2], x[2], 6 * width)
        return None

    register("test.copy", copy)
    with veery.enable_x64(True):
        for name in NAMES:
            x = (np.arange(6).reshape(2, 3) % 2).astype(getattr(ml_dtypes, name, name))
            width = x.itemsize
            y = ffi.ffi_call("test.copy", struct((3, 2), x.dtype))(x)
            assert y.dtype == x.dtype and [s[:2] for s in seen] == [(abi.DTYPES[name], s) for s in ((2, 3), (3, 2))]
            np.testing.assert_array_equal(np.asarray(y).ravel(), x.ravel())


def test_attributes_arrive_in_the_order_of_their_names():
    seen = []
    register("test.attributes", lambda frame: seen.append(attribute_values(frame.attributes)))
    call = ffi.ffi_call("test.attributes", struct((1,), F32))
    call(text="é", b=True, z=7, y=1.5, array=np.array([[1, 2], [3, 4]], np.int16), d={"k": np.int8(3), "a": b"x"})[0]
    expected = {
        "array": (abi.DTYPES["int16"], 4, np.arange(1, 5, dtype=np.int16).tobytes()),
        "b": (abi.DTYPES["bool"], b"\x01"),
        "d": {"a": b"x", "k": (abi.DTYPES["int8"], b"\x03")},
        "text": "é".encode(),
        "y": (abi.DTYPES["float64"], np.float64(1.5).tobytes()),
        "z": (abi.DTYPES["int64"], np.int64(7).tobytes()),
    }
    assert seen == [expected] and list(seen[0]) == sorted(expected)


def test_attributes_that_are_equal_but_of_other_types_are_told_apart():
    seen = []
    register("test.kinds", lambda frame: seen.append(attribute_values(frame.attributes)["k"][0]))
    call = ffi.ffi_call("test.kinds", struct((1,), F32), has_side_effect=True)
    f = lambda: [call(k=k)[0] for k in (True, 1, 1.0, np.int8(1))]
    veery.jit(f)()[0].block_until_ready()
    assert sorted(seen) == sorted(abi.DTYPES[name] for name in ("bool", "int64", "float64", "int8"))


@pytest.mark.parametrize(
    "value, message",
    [
        ([1], "Non-hashable keyword argument to ffi_call k"),
        ((1, 2), "No attribute handler defined for type: <class 'tuple'>.*np.array"),
        (None, "No attribute handler defined for type: <class 'NoneType'>"),
        (np.array(["a"]), "Attribute 'k' may be a number"),
    ],
)
def test_attributes_that_are_none_are_refused(value, message):
    with pytest.raises(TypeError, match=message):
        ffi.ffi_call("test.any", struct((), F32))(k=value)


@pytest.mark.parametrize(
    "declared, args, error, message",
    [
        (3, (), ValueError, "must have 'shape' and 'dtype' attributes. Got 3 at position 0"),
        (struct((), F32), ([1.0],), TypeError, "is not a valid JAX type"),
        (struct((), jnp.int4), (), TypeError, "foreign functions get arrays of whole bytes"),
        (struct((), F32), (jnp.ones(2, jnp.uint4),), TypeError, "argument 0 of ffi_call is uint4"),
        (struct((), F32), (veery.random.key(0),), TypeError, "keys of random numbers"),
    ],
)
def test_arguments_and_results_that_cannot_be_passed_are_refused(declared, args, error, message):
    with pytest.raises(error, match=message):
        ffi.ffi_call("test.any", declared)(*args)


def test_a_state_is_made_once_and_seen_by_all_calls():
    type_id = ctypes.c_int64(0)
    freed = []
    delete = abi.HANDLER(freed.append)
    HANDLERS.append(delete)
    info = abi.TypeInfo(ctypes.sizeof(abi.TypeInfo), None, ctypes.cast(delete, ctypes.c_void_p))
    capsule = lambda thing: ffi.pycapsule(ctypes.addressof(thing))
    ffi.register_ffi_type("test.state", {"type_id": capsule(type_id), "type_info": capsule(info)})
    assert type_id.value > 0
    again = ctypes.c_int64(0)
    ffi.register_ffi_type("test.state", {"type_id": capsule(again)})
    assert again.value == type_id.value
    other = ctypes.c_int64(type_id.value + 1)
    with pytest.raises(veery.errors.JaxRuntimeError, match="type 'test.state' is registered as"):
        ffi.register_ffi_type("test.state", {"type_id": capsule(other)})

    made, stages = [], []
    about = lambda frame, stage: {"context": frame.context, "stage": stage, "type_id": ctypes.addressof(type_id)}

    def instantiate(frame):
        made.append(ctypes.c_int32(attribute_values(frame.attributes)["start"][1][0]))
        return call_back(frame, "State_Set", abi.State, **about(frame, 0), state=ctypes.addressof(made[-1]))[0]

    def initialize(frame):
        stages.append(frame.stage)
        return call_back(frame, "State_Set", abi.State, **about(frame, 2), state=frame.stage)[0]

    def execute(frame):
        error, seen = call_back(frame, "State_Get", abi.State, **about(frame, 0))
        assert not error
        error, initialized = call_back(frame, "State_Get", abi.State, **about(frame, 2))
        assert not error and initialized.state == 2
        stages.append(frame.stage)
        count = ctypes.c_int32.from_address(seen.state)
        ctypes.c_int32.from_address(buffers(frame.rets)[0][2]).value = count.value
        count.value += 1
        missing, _ = call_back(frame, "State_Get", abi.State, **about(frame, 1))
        assert missing
        call_back(frame, "Error_Destroy", abi.ErrorDestroy, error=missing)

    register("test.stages", None, {"instantiate": instantiate, "initialize": initialize, "execute": execute})
    count = veery.jit(
        lambda: ffi.ffi_call("test.stages", struct((), np.int32), has_side_effect=True)(start=np.int8(10))
    )
    assert [int(count()) for _ in range(3)] == [10, 11, 12] and len(made) == 1
    assert stages == [2, 3] * 3
    assert freed == [2] * 3  # those of one call, with the call


def test_work_that_goes_on_in_other_threads_is_waited_for():
    def start(frame):
        (_, _, x), (_, _, y) = *buffers(frame.args), *buffers(frame.rets)
        _, future = call_back(frame, "Future_Create", abi.Future)
        frame.future = future.future
        api, number = frame.api, future.future

        def finish():
            told = abi.Frame(api=api)
            value = ctypes.c_float.from_address(x).value
            if value < 0:
                message = ctypes.c_char_p(b"negative")
                error, _ = call_back(told, "Error_Create", abi.ErrorCreate, message=message, code=11)
                call_back(told, "Future_SetError", abi.Future, future=number, error=error)
            else:
                ctypes.c_float.from_address(y).value = 2 * value
                call_back(told, "Future_SetAvailable", abi.Future, future=number)

        threading.Timer(0.05, finish).start()

    register("test.later", start)
    call = veery.jit(ffi.ffi_call("test.later", struct((), F32)))
    assert float(call(F32(4))) == 8
    with pytest.raises(veery.errors.JaxRuntimeError, match="OUT_OF_RANGE: negative"):
        np.asarray(call(F32(-4)))


def test_what_functions_may_ask_for_is_given_or_refused():
    seen = {}

    def ask(frame):
        at = {"context": frame.context}
        _, memory = call_back(frame, "DeviceMemory_Allocate", abi.Allocate, **at, size=100, alignment=64)
        ctypes.memset(memory.data, 1, 100)
        seen["aligned"] = memory.data % 64
        call_back(frame, "DeviceMemory_Free", abi.Free, **at, size=100, data=memory.data)
        tasks = []
        task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tasks.append)
        address = ctypes.cast(task, ctypes.c_void_p)
        call_back(frame, "ThreadPool_Schedule", abi.Schedule, **at, task=address, data=5)
        seen["tasks"] = tasks
        count = ctypes.c_int64(0)
        call_back(frame, "ThreadPool_NumThreads", abi.NumThreads, **at, count=ctypes.pointer(count))
        seen["threads"] = count.value
        seen["run"] = call_back(frame, "RunId_Get", abi.Number, **at)[1].value
        error, _ = call_back(frame, "Stream_Get", abi.Number, **at)
        message = call_back(frame, "Error_GetMessage", abi.ErrorMessage, error=error)[1].message
        seen["error"] = ctypes.string_at(message)
        return error

    register("test.ask", ask)
    with pytest.raises(veery.errors.JaxRuntimeError, match="UNIMPLEMENTED: there are no streams on the host"):
        np.asarray(ffi.ffi_call("test.ask", struct((), F32))())
    assert seen.pop("run") > 0
    assert seen == {"aligned": 0, "tasks": [5], "threads": 1, "error": b"there are no streams on the host"}


def test_registration_refuses_what_cannot_be_called():
    error = veery.errors.JaxRuntimeError
    function = ctypes.CDLL(None).abs
    capsule = ffi.pycapsule(function)
    with pytest.raises(error, match="expected a PyCapsule, got _FuncPtr: `jax.ffi.pycapsule"):
        ffi.register_ffi_target("test.none", function)
    with pytest.raises(error, match="UNIMPLEMENTED: API version 7 is not supported"):
        ffi.register_ffi_target("test.none", capsule, api_version=7)
    with pytest.raises(error, match="must provide an execute implementation"):
        ffi.register_ffi_target("test.none", {"instantiate": capsule})
    with pytest.raises(error, match="there is no stage 'perform'"):
        ffi.register_ffi_target("test.none", {"execute": capsule, "perform": capsule})
    with pytest.raises(error, match="was compiled for version 0.9 of the interface, and the latest known here is 0.3"):
        register("test.late", None, version=(0, 9))
    with pytest.raises(error, match="does not say for which version of the interface"):
        register("test.mute", None, version=(-1, -1))
    with pytest.raises(TypeError, match="takes no argument 'nonsense'"):
        ffi.register_ffi_target("test.none", capsule, nonsense=1)
    ffi.register_ffi_target("test.abs", capsule, api_version=0)
    ffi.register_ffi_target("test.abs", capsule, api_version=0)
    with pytest.raises(error, match="Duplicate FFI handler registration for test.abs on platform cpu"):
        ffi.register_ffi_target("test.abs", ffi.pycapsule(ctypes.CDLL(None).labs), api_version=0)
    ffi.register_ffi_target("test.abs", ffi.pycapsule(ctypes.CDLL(None).labs), "CUDA", api_version=0)
    with pytest.raises(ValueError, match="register_ffi_type"):
        ffi.register_ffi_type_id("test.type", capsule)
