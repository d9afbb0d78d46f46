"""What is small and would be several dispatches, as one kernel: that it computes what the jaxpr says, and what is."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import assert_close, results
from support.interpreted import interpreted
from support.kernels import how_many

import veery
from veery import lax, numpy as jnp
from veery.experimental import io_callback
from veery_lowering import kernels
from veery_lowering.kernels import _pieces, fuse_pieces
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._isolated import Isolated
from veery_lowering.kernels._machine import CPU
from veery_lowering.kernels._pieces import PieceKernel, Unwritten, _written
from veery_lowering.kernels._rounds import counting
from veery_lowering.mlir import context, ir, operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo.unread import drop_unread


def written_and_read(x: Any) -> Any:
    """What is written in part is read before and after that, and returned."""
    y = x * 2
    z = lax.dynamic_update_slice(y, x[:1] + 1, (1, 0))
    w = lax.dynamic_update_slice(z, x[1:2], (0, 0))
    return y.sum(0), z, w, w.max(1)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "variance": lambda x: ((x - x.sum(0)) ** 2).sum(1),
    "products": lambda x: (x @ x.T @ x, (x.T @ x).max(0)),
    "joins and sums": lambda x: (jnp.stack([x, -x]).sum(0), jnp.pad(x, 1, constant_values=3).min(1), x + x[:1]),
    "numbers": lambda x: (x.sum(), x.max() - x.min(), x[1, 0] * 2, (x * x.sum()).sum()),
    "lookups": lambda x: (x[jnp.arange(5) % 3].sum(0), jnp.take(x, jnp.array([1, -1]), 1), x.max(0)),
    "masks": lambda x: ((x > x.min()).sum(0), (x > 2).any(1), jnp.where(x > x.sum(0), x, 0).sum(), x == x.max()),
    "written and read": written_and_read,
    "the same twice": lambda x: (x.sum(0), x.sum(0), x, x.T, x.sum(0)[None] + x.max(1)[:, None]),
    "many results": lambda x: tuple(x * i + x[0, 0] for i in range(1, 11)),
    "a loop between": lambda x: lax.fori_loop(0, 3, lambda _, y: y + x.max(0), x).sum(1) - x.max(1),
    "a sort between": lambda x: jnp.sort(x - x.sum(1, keepdims=True) + x.max(0), 0)[::-1].cumsum(1).sum(0) + x.sum(0),
    "branches": lambda x: lax.cond(x.sum() > 3, lambda: (x.max(0), x.sum(0)), lambda: (x.min(0), x.sum(0) * 2)),
    "numbered": lambda x: (x * lax.broadcasted_iota(x.dtype, x.shape, 1)).sum(0) + (jnp.arange(x.shape[0]) * x.T).sum(),
}


@pytest.mark.parametrize(("dtype", "shape"), [("f4", (4, 6)), ("i4", (3, 1)), ("u1", (5, 33)), ("f8", (3, 4))], ids=str)
def test_pieces_compute_what_their_operations_do(dtype: str, shape: tuple[int, ...], x64: Any) -> None:
    x = np.random.default_rng(5).integers(0, 7, shape).astype(dtype)
    calls = [(fun, (x,)) for fun in PROGRAMS.values()]
    for name, (fun, operands), outs in zip(PROGRAMS, calls, results(calls), strict=True):
        assert not isinstance(outs, Exception), (name, outs)
        expected = veery.tree.leaves(interpreted(fun, *operands))
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            assert_close(actual, np.asarray(wanted), 0)


def rotated(x: Any) -> Any:
    """Two gates of a quantum circuit, on the first and on the last axis of a state."""
    cos, sin = jnp.cos(x.real.sum()), -1j * jnp.sin(x.real.sum())
    gate = jnp.stack([jnp.stack([cos + 0j, sin]), jnp.stack([sin, cos + 0j])]).astype(x.dtype)
    state = jnp.zeros((2, 2, 2), x.dtype).at[0, 0, 0].set(x[0, 0])
    for axis in (0, 2):
        state = jnp.moveaxis(jnp.tensordot(gate, state, ((1,), (axis,))), 0, axis)
    return state, jnp.abs(state) ** 2


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "gates": rotated,
    "products": lambda x: (x @ x.T @ x, x.conj().T @ x, jnp.vdot(x, 2 * x)),
    "joins and sums": lambda x: (jnp.stack([x, -x.real]).sum(0), jnp.pad(x, 1, constant_values=3j)[::-1].sum(1)),
    "parts": lambda x: (x.real.sum(0) + x.imag.max(0), x.sum(0).imag, lax.complex(x.imag, x.real).sum(1)),
    "updates": lambda x: (x.at[1].set(x.sum(0)), lax.dynamic_update_slice(x, x[:1, :1] * 1j, (2, 1)).T, x),
    "choices": lambda x: (jnp.where(x == x[0], x.sum(0), x), (x != x[:, :1]).any(1), x.sum() == x.T.sum()),
    "lookups": lambda x: (x[jnp.arange(5) % 3].sum(0), jnp.take(x, jnp.array([1, -1]), 1) - x[:, :2]),
    "functions": lambda x: (jnp.exp(x.sum(0) / 9) @ x.T, jnp.sqrt(x).sum(1) / (x.sum(1) + 3), jnp.angle(x.sum(0))),
    "what is given": lambda x: (x, x.T, x.sum(0), x.sum(0), x + x.max()),
    "a loop between": lambda x: lax.fori_loop(0, 3, lambda _, y: y * 0.5j + x.sum(0), x).sum(1) - x.sum(1),
    "a product between": lambda x: (jnp.fft.fft(x.sum(0)) - x.sum(0)).sum() * x.sum(1),
}


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(4, 4), (3, 3)], ids=str)
def test_pieces_of_complex_numbers(dtype: type, shape: tuple[int, ...], x64: Any) -> None:
    rng = np.random.default_rng(7)
    x = (rng.integers(-3, 4, shape) + 1j * rng.integers(-3, 4, shape)).astype(dtype)
    calls = [(fun, (x,)) for fun in COMPLEX.values()]
    for name, (fun, operands), outs in zip(COMPLEX, calls, results(calls), strict=True):
        assert not isinstance(outs, Exception), (name, outs)
        expected = veery.tree.leaves(interpreted(fun, *operands))
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            assert actual.dtype == np.asarray(wanted).dtype, name
            most = 1e-5 if dtype is np.complex64 else 1e-12
            np.testing.assert_allclose(actual, wanted, rtol=most, atol=most, err_msg=name)
    assert all(pieces(fun, x) for name, fun in COMPLEX.items() if name not in ("a loop between", "what is given"))


def test_what_is_too_much_text_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    fun = lambda x: functools.reduce(lambda y, i: (y @ x.T @ x) * (y.sum(0) + i) / 400, range(8), x)
    x = np.random.default_rng(8).normal(size=(4, 6)).astype(np.float32)
    whole = pieces(fun, x)
    monkeypatch.setattr(_pieces, "_MOST_LINES", 300)
    _written.cache_clear()
    try:
        assert 0 < whole < 4 < pieces(fun, x)
        np.testing.assert_allclose(veery.jit(fun)(x), interpreted(fun, x), rtol=1e-4)
    finally:
        _written.cache_clear()


pieces = functools.partial(how_many, fuse_pieces)


X = np.ones((4, 6), np.float32)


@pytest.mark.parametrize(
    ("fun", "operands", "count"),
    [
        (lambda x: [x * i for i in range(1, 9)], [X], 1),
        (lambda x: [x * i for i in range(1, 8)], [X], 0),
        (lambda x: [x * i for i in range(1, 9)], [np.ones((200, 300), np.float32)], 0),
        (PROGRAMS["variance"], (X,), 1),
        (PROGRAMS["written and read"], (X,), 1),
        (PROGRAMS["branches"], (X,), 1),  # what is cheap is computed in both branches
        (lambda x: (jnp.sort(x.sum(0) - x.max(0)), x.min(0)), (X,), 1),
        (lambda x: jnp.sort(x.sum(0) - x.max(0)).cumsum().sum() * x.sum(0) @ x.T, (X,), 1),
        (
            lambda x: jnp.linalg.eigvalsh((x - x.max()) @ x.T).cumsum().sum() * x.sum(0) @ x.T,
            (X,),
            2,
        ),  # before and after
        (lambda x: jnp.tanh(x @ x.T), (X,), 0),  # IREE's one dispatch
        (lambda x: jnp.tanh(x @ x).sum(), (np.ones((64, 64), np.float32),), 1),  # all there is
        (lambda x: jnp.tanh(jnp.sort(x @ x)).sum(), (np.ones((64, 64), np.float32),), 0),
        (lambda x: jnp.tanh(x @ x @ x).sum(), (np.ones((64, 64), np.float32),), 0),  # worth all cores
        (lambda x: (x @ x).sum(0) @ x, (np.ones((64, 64), np.float32),), 1),
        (lambda x: jnp.tanh(x.T @ x).sum(), (np.ones((64, 64), np.float32),), 1),
        (lambda x: jnp.tanh(x @ x.T).sum(), (np.ones((64, 64), np.float32),), 0),  # copies pay
        (lambda x, y: x @ (x @ y), (np.ones((300, 300), np.float32), np.ones(300, np.float32)), 1),
        (lambda x: x.sum(0) @ x.T, (np.ones((999, 999), np.float32),), 0),  # worth all cores
        (lambda x: jnp.convolve(x[0], x[1]).sum() * x.max(), (X,), 1),
        (lambda x: jnp.convolve(x[0], x[1]).sum() * x.max(), (np.ones((4, 999), np.float32),), 1),
        (lambda x: x.at[1].set(7.0), (X,), 1),
        (lambda x: x.at[1].set(7.0), (np.ones((99, 99), np.float32),), 0),  # in place where it is given away
        (lambda x: x.sum(0) @ x.T, (X.astype(np.complex64),), 1),
        (lambda x: x.sum(0) @ x.T, (np.ones((200, 200), np.complex64),), 0),
    ],
)
def test_which_operations_are_pieces(fun: Any, operands: Any, count: int) -> None:
    assert pieces(fun, *operands) == count


@pytest.mark.usefixtures("as_preferred")
def test_a_program_in_one_kernel_computes_what_its_operations_do() -> None:
    x = np.random.default_rng(6).normal(size=(64, 64)).astype(np.float32) / 8
    fun = lambda x: (jnp.tanh(y := x @ x).sum(), y.max(0))
    program = veery.jit(fun).lower(x).compile()
    assert program._program.metadata["dispatches"].split(",")[0] == "1"
    total, largest = program(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(total, np.tanh(wide @ wide).sum(), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(largest, (wide @ wide).max(0), rtol=1e-5)


@pytest.mark.parametrize("problem", [lambda op: Unfit("too much"), lambda op: Unwritten(op, "not now")])
def test_what_is_not_written_as_one_kernel_is_written_as_several(problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []

    def make(operations: Any, machine: Any) -> Any:
        if not refused:
            refused.append(len(operations))
            raise problem(operations[0])
        return PieceKernel(operations, machine)

    monkeypatch.setattr(kernels, "PieceKernel", make)
    fun = lambda x: jnp.tanh(x @ x).sum() + x.max(0).sum() * x.min(1).sum()
    assert pieces(fun, np.ones((64, 64), np.float32)) == 1
    assert len(refused) == 1


@pytest.mark.usefixtures("as_preferred")
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "?", "c8"])
@pytest.mark.parametrize("size", [2, 3, 64, 65])
def test_constants_of_kernels(dtype: str, size: int, x64: Any) -> None:
    """Small ones are written in kernels, others are given to them: they have all their bits."""
    of = np.dtype(dtype)
    values = np.random.default_rng(size).integers(0, 256, size * of.itemsize).astype(np.uint8).view(of)
    if of.kind in "fc":
        values = np.where(np.isfinite(values), values, -0.0).astype(of)
        values[:2] = -0.0, np.inf
    elif of.kind == "b":
        values = np.arange(size) % 2 == 1
    x = np.arange(size, dtype=np.int32)[::-1].copy()

    def fun(x: Any) -> Any:
        y = jnp.asarray(values)[x]
        return y, jnp.concatenate([y[1:], y[:1]]), (x * 2).sum(), x.max()

    program = veery.jit(fun).lower(x).compile()
    assert program._program.metadata["pipeline"] == "short"  # it is compiled, by which kernels are
    taken, moved, total, largest = map(np.asarray, program(x))
    assert taken.tobytes() == values[x].tobytes() and moved.tobytes() == np.roll(values[x], -1).tobytes()
    assert (total, largest) == (2 * x.sum(), size - 1)


def test_programs_are_given_no_small_constants() -> None:
    """Those of a loss that looks up the labels' terms are the last elements of each axis."""

    def loss(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(x - veery.nn.logsumexp(x, 1, keepdims=True), y[:, None], 1).mean()

    left: list[str] = []

    def change(module: Any) -> None:
        fuse_pieces(module)
        drop_unread(module)
        left.extend(op.name for op in operations(module))

    inlined(veery.jit(veery.grad(loss)).lower(np.ones((6, 10), np.float32), np.arange(6))._lowered.module, change)
    assert "flow.dispatch" in left and "stablehlo.constant" not in left


@pytest.mark.parametrize("is_known", [True, False])
def test_the_host_counts_the_trips_of_loops(is_known: bool) -> None:
    """Where a kernel adds to the number, the host waits for that in each trip."""
    found: list[bool] = []

    def change(module: Any) -> None:
        count = fuse_pieces(module)
        loops = [op for op in operations(module) if op.name == "stablehlo.while"]
        found.extend(count > 0 and counting(loop.regions[1].blocks[0]) is not None for loop in loops)

    fun = lambda x, n: lax.fori_loop(0, n, lambda i, x: jnp.stack([x.sum(0) + i, x.max(0), *x[2:]]) * x.min(), x)
    inlined(veery.jit(fun, static_argnums=1 if is_known else ()).lower(X, 9)._lowered.module, change)
    assert found == [True]


def test_effects_keep_their_order() -> None:
    """Operations go in front of others that they do not depend on; calls of the host stay in turn."""
    seen: list[float] = []

    def told(x: Any) -> Any:
        return io_callback(lambda x: seen.append(float(x)) or x, veery.ShapeDtypeStruct((), np.float32), x)

    @veery.jit
    def fun(x: Any) -> Any:
        late = told(told(x.sum() + x.max()) + 1)
        soon = told(x.min() - x.sum(0).max())
        return late * soon + (x.sum(1) * x.max(1)).sum()

    for _ in range(3):
        seen.clear()
        assert float(fun(X)) == 26 * -3 + 24
        assert seen == [25, 26, -3]


@pytest.mark.parametrize(
    "given",
    [
        lambda mask: mask,
        lambda mask: mask.reshape(2, 2),
        lambda mask: (mask, mask.reshape(2, 1, 2), mask.astype(np.int8) * 3),
    ],
)
def test_booleans_stay_bytes(given: Callable[[Any], Any], x64: Any) -> None:
    """From one kernel to another: what is between them is computed by LAPACK, and nothing else is compiled."""

    def fun(x: Any) -> Any:
        mask = (x - x.mean(1, keepdims=True)).max(1) > 1.5
        values = jnp.linalg.eigvalsh((x - x.max()) @ x.T)
        masks = veery.tree.leaves(given(mask))
        return [(jnp.where(m, values.reshape(m.shape), m).sum(0) * values.max(), m.sum(-1)) for m in masks]

    x = np.random.default_rng(2).integers(0, 9, (4, 6)).astype(np.float32)
    program = veery.jit(fun).lower(x).compile()
    assert program._program.metadata["dispatches"].split(",")[0] == "3"
    for actual, wanted in zip(veery.tree.leaves(program(x)), veery.tree.leaves(interpreted(fun, x)), strict=True):
        assert_close(actual, np.asarray(wanted), 20)


def layers(count: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for _ in range(count):
            x = jnp.tanh(x @ x.T @ x)
        return x

    return run


@pytest.mark.usefixtures("as_preferred")
def test_equal_pieces_are_written_once() -> None:
    """Of a program of equal layers; and what another program has in common with it."""
    x = np.random.default_rng(7).normal(size=(9, 31)).astype(np.float32)
    _written.cache_clear()
    got = veery.jit(layers(24))(x)
    made = _written.cache_info()
    assert made.misses <= 3 and made.hits >= 2  # there is a first one and a last one
    expected = x.astype(np.float64)
    for _ in range(24):
        expected = np.tanh(expected @ expected.T @ expected)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    veery.jit(lambda x: (layers(24)(x) * 2, x.max(0)))(x)
    assert _written.cache_info().hits > made.hits


def isolated(fun: Callable[..., Any], *operands: Any) -> str:
    """The operations of a function by themselves."""
    found: list[str] = []

    def look(module: Any) -> None:
        block = module.regions[0].blocks[0].operations[0].regions[0].blocks[0]
        held = [op for op in block.operations if op.name not in ("stablehlo.constant", "func.return")]
        found.append(Isolated(held).text)

    inlined(veery.jit(fun).lower(*operands)._lowered.module, look)
    return found[0]


def test_what_a_kernel_is_written_of_is_in_its_text() -> None:
    """The same operations have the same text each time; what differs in anything that is written has another."""
    programs: list[Callable[[Any], Any]] = [
        lambda x: x.sum(0) + x.max(0),
        lambda x: x.max(0) + x.sum(0),
        lambda x: x.sum(0) + x.min(0),
        lambda x: (y := x.sum(0)) + x.max(0) + y,
        lambda x: (x.sum(0) + x.max(0), x.sum(0)),
        lambda x: (x + 1).sum(0) + x.max(0),
        lambda x: (x + 2).sum(0) + x.max(0),
        lambda x: (x + x[:1]).sum(0) + x.max(0),
        lambda x: (x + x[1:2]).sum(0) + x.max(0),
        lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b * 2, (0,)) + x.max(0),
        lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b * 3, (0,)) + x.max(0),
    ]
    texts = [isolated(fun, X) for fun in programs]
    assert texts == [isolated(fun, X) for fun in programs]
    assert len(set(texts)) == len(programs)
    assert len({isolated(programs[0], X.astype(dtype)) for dtype in ("f4", "f8", "i4")}) >= 2


@pytest.mark.parametrize(
    ("constant", "is_written"),
    [("[1.0, 2.0]", True), ("2.0", True), (f"[{', '.join(map(str, map(float, range(100))))}]", False)],
    ids=["small", "equal elements", "large"],
)
def test_constants_that_kernels_have_in_their_text(constant: str, is_written: bool) -> None:
    """Others are given to them, whose elements are not what they are known by."""
    tensor = f"tensor<{constant.count(',') + 1 if '[' in constant else 300}xf32>"
    text = f"""
    func.func @main(%x: {tensor}) -> {tensor} {{
      %c = stablehlo.constant dense<{constant}> : {tensor}
      %y = stablehlo.add %x, %c : {tensor}
      return %y : {tensor}
    }}"""
    with context():
        module = ir.Module.parse(text)
        _, add, _ = module.body.operations[0].regions[0].blocks[0].operations
        kernel = Isolated([add])
        assert ("stablehlo.constant" in kernel.text) == is_written
        assert len(kernel.given) == 2 and list(kernel.left) == list(add.results)
        read = list(PieceKernel([add], CPU).executable.inputs)
        assert read == ([add.operands[0]] if is_written else list(add.operands))


def test_constants_that_kernels_do_not_write() -> None:
    """Of some types nothing reads the elements: a kernel is given what stands in its function."""
    text = """
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %c = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
      %d = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
      %y = stablehlo.select %c, %x, %d : tensor<3xi1>, tensor<3xf32>
      return %y : tensor<3xf32>
    }"""
    with context():
        module = ir.Module.parse(text)
        select = module.body.operations[0].regions[0].blocks[0].operations[2]
        kernel = PieceKernel([select], CPU)
        assert set(kernel.executable.inputs) == {select.operands[0], select.operands[1]}


def test_refusals_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    text = isolated(lambda x: x.sum(0) + x.max(0), X)
    _written.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(_pieces, "_MOST_LINES", 3)
        refused = _written(text, CPU)
    assert refused == _pieces._Refused("more text than its parts are worth") and _written(text, CPU) is refused
    _written.cache_clear()
    assert isinstance(_written(text, CPU), _pieces._Written)


def test_equal_pieces_are_one_kernel() -> None:
    x = np.ones((9, 31), np.float32)
    text = veery.jit(layers(24)).lower(x).as_text("flow")
    called = re.findall(r"flow.dispatch @(\w+)_code", text)
    assert len(called) > 4 and len(set(called)) <= 3
    assert text.count("hal.executable.source") == len(set(called))
