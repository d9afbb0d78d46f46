"""IREE's list of passes to LLVM's dialect as text: the same code, without the dialects of GPUs."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest
from lowering.test_machine_code import in_this_process
from lowering.test_short import some
from lowering.test_translating import PROGRAMS, without_names
from support.dialects import loaded

import veery
from veery import lax, numpy as jnp
from veery_lowering.compiler import isolation, sessions, short, to_llvm, translating
from veery_lowering.mlir import ir, operations

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)


def operand(dtype: Any, *shape: int) -> Any:
    return np.random.default_rng(0).integers(1, 9, shape).astype(dtype)


# Programs with all kinds of arithmetic, and whether IREE's own list makes some of their code.
ARITHMETIC: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "floats": (lambda x: (jnp.maximum(x, 1 - x) % 3, jnp.sign(x), x.astype(int), jnp.floor(x)), (some(35),), False),
    "halves": (lambda x: (x * x + 1, x.astype(np.float32), x.sum()), (operand(np.float16, 35),), False),
    "doubles": (lambda x: (x * x + 1, x.max(), jnp.exp(x)), (operand(np.float64, 35),), False),
    "integers": (
        lambda x, y: (x // y, x % y, x << y, x >> y, abs(x - y), jnp.clip(x, 3, y), (x * y).max(), x ^ ~y),
        (operand(np.int32, 35), operand(np.int32, 35)), False,
    ),
    "bytes": (
        lambda x, y: (x // y, x * y + x, jnp.maximum(x, y), (x < y).sum(), x.astype(np.int64) * y),
        (operand(np.uint8, 35), operand(np.uint8, 35)), False,
    ),
    "words": (lambda x: veery.random.bits(veery.random.key(x[0]), (33,)), (operand(np.uint32, 3),), False),
    "positions": (lambda x: (x.T + 1, jnp.cumsum(x, axis=0), jnp.pad(x.T, 1)), (some(256, 100),), False),
    "matrices by blocks": (
        lambda x: (x @ x.mT).reshape(3, 2, 4, 2, 4).swapaxes(2, 3).sum((3, 4)), (some(3, 8, 8),), False
    ),
    "masks": (lambda x: (jnp.where(lax.optimization_barrier(x > 4)[::-1], x, 2), (x > 3).any()), (some(35),), False),
    "complex numbers": (lambda x: (x * (1 + 2j) / 3, jnp.exp(x * 1j), (x * 1j).sum()), (some(35),), False),
    "integers of 4 bits": (
        lambda x: (lax.optimization_barrier(x.astype(jnp.int4) * jnp.int4(2)).T[::-1].astype(int), x.astype(jnp.uint2)),
        (operand(np.int32, 5, 7),), False,
    ),
    "bfloat16": (lambda x: (x * x + 1, x.sum()), (jnp.asarray(operand(np.float32, 25), jnp.bfloat16),), True),
    "floats of 8 bits": (lambda x: x.astype(np.float32) * 2, (jnp.ones(35, jnp.float8_e4m3fn),), True),
}  # fmt: skip


def compiled(fun: Any, operands: Any, monkeypatch: pytest.MonkeyPatch, irees: bool) -> tuple[list[str], int]:
    """The dispatches of a program in LLVM's dialect, and how many IREE's list was run on."""
    found: list[str] = []
    left = 0

    def noted(module: Any, run: Any, threads: bool) -> bool:
        def counted(executable: Any, passes: str, thread: int) -> bool:
            nonlocal left
            left += passes == to_llvm.IREES_LIST
            return bool(run(executable, passes, thread))

        done = translating.translate(module, counted, threads)
        found.extend(str(op) for op in module.body.operations if op.operation.name == "hal.executable")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(isolation, "run_pipeline", in_this_process)
        patch.setattr(short, "translate", noted)
        patch.setattr(short, "are_plain", lambda module: False)
        if irees:
            patch.setattr(translating, "to_llvm", lambda *_: None)
        veery.config.update("jax_enable_compilation_cache", False)
        program = veery.jit(lambda *xs: fun(*xs)).lower(*operands).compile()
    assert program._program.metadata["pipeline"] == "short"
    return list(map(without_names, found)), left


@pytest.mark.parametrize("name", ARITHMETIC)
def test_the_code_is_that_of_irees_list(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fun, operands, is_left = ARITHMETIC[name]
    with veery.enable_x64(True):
        ours, left = compiled(fun, operands, monkeypatch, irees=False)
        theirs, all_left = compiled(fun, operands, monkeypatch, irees=True)
    assert ours == theirs
    assert all_left == len(theirs) > 0
    assert (left > 0) == is_left


# Programs whose kernels need nothing of what is done with dispatches.
KERNELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "elements": (lambda x: jnp.tanh(x) * 3 + jnp.floor(x) - jnp.rint(x), (some(35, 20),)),
    "whole numbers": (lambda x: (x * x + 1) % 7 ^ x >> 2, (operand(np.int32, 350),)),
    "rows and columns": (lambda x: (veery.nn.softmax(x), x - x.max(0)), (some(40, 50),)),
    "products": (lambda x, y: jnp.maximum(x @ y, 0), (some(60, 70), some(70, 80))),
    "convolution": (lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (some(2, 16, 9, 9), some(16, 16, 3, 3))),
    "loop": (lambda x: lax.fori_loop(0, 10, lambda i, y: y * 0.9 + jnp.roll(y, 1) + i, x), (some(33),)),
    "joins": (lambda x: jnp.stack([x[::-1], x[..., ::2].repeat(2, 1) * 2]), (some(300, 40),)),
    "halves": (lambda x: (x * x + 1).astype(np.float32).sum(0) + jnp.ones(70), (operand(np.float16, 60, 70),)),
    "doubles": (lambda x: x / jnp.linalg.norm(x, axis=0), (operand(np.float64, 35, 40),)),
}
# Assumptions that floats lie where floats do, and the places from which these are read once more.
_ASSUMED = re.compile(r"dispatch_state_v0_t|llvm.intr.assume|mlir.constant\((1|2|4|8|true)\b|arith.constant 1 : index")


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_need_no_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[bool, set[str]] = {False: set(), True: set()}

    def noting(translate: Any, is_plain: bool) -> Any:
        def noted(module: Any, run: Any, threads: bool) -> bool:
            done = bool(translate(module, run, threads))
            texts = [str(op) for op in module.body.operations if "veery_" in str(op.operation.attributes["sym_name"])]
            for text in map(without_names, texts):
                found[is_plain].add("\n".join(line for line in text.splitlines() if not _ASSUMED.search(line)))
            return done

        return noted

    fun, operands = KERNELS[name]
    monkeypatch.setattr(isolation, "run_pipeline", in_this_process)
    monkeypatch.setattr(short, "translate", noting(translating.translate, False))
    monkeypatch.setattr(short, "translate_plain", noting(translating.translate_plain, True))
    veery.config.update("jax_enable_compilation_cache", False)
    with veery.enable_x64(True):
        for _ in range(2):
            program = veery.jit(lambda *xs: fun(*xs)).lower(*operands).compile()
            assert program._program.metadata["pipeline"] == "short"
            monkeypatch.setattr(short, "are_plain", lambda module: False)
    assert found[True] and found[True] == found[False]


def test_kernels_of_other_operations_have_their_tiles_chosen() -> None:
    for inside, plain in (
        ("%1 = arith.addf %x, %x : f32", True),
        ("%1 = arith.floordivsi %n, %n : index", False),
        ("%1 = arith.extf %h : bf16 to f32", False),
        ("%1 = tensor.empty() : tensor<3xf32>", False),
        ("%1 = memref.alloca() : memref<3xi1>", False),
        ("%1 = memref.alloca() : memref<3xi8>", True),
    ):
        with ir.Context(), ir.Location.unknown():
            text = f"func.func @f(%x: f32, %n: index, %h: bf16) {{ {inside}\n return }}"
            assert to_llvm.is_plain(ir.Module.parse(text).operation) is plain, inside


def test_divisions_that_round_down_are_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the table above has some of."""
    rounded = []
    divide = to_llvm._divide
    monkeypatch.setattr(to_llvm, "_divide", lambda op: (rounded.append(op.name), divide(op)))
    fun, operands, _ = ARITHMETIC["positions"]
    compiled(fun, operands, monkeypatch, irees=False)
    assert rounded


def test_no_dialect_is_loaded_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is, no other thread may be at work in the context."""
    found: list[tuple[int, int]] = []

    def noting(translate: Any) -> Any:
        def noted(module: Any, run: Any, threads: bool) -> bool:
            before = loaded(module.context)
            done = bool(translate(module, run, False))  # what fails here crashes with threads
            found.append((before, loaded(module.context)))
            return done

        return noted

    monkeypatch.setattr(isolation, "run_pipeline", in_this_process)
    for name in ("translate", "translate_plain"):
        monkeypatch.setattr(short, name, noting(getattr(translating, name)))
    monkeypatch.setattr(sessions, "_idle", {})  # new ones, whose contexts have no more than they are given
    veery.config.update("jax_enable_compilation_cache", False)
    for fun, operands in (*KERNELS.values(), *PROGRAMS.values(), (lambda x: lax.cumsum(x), (some(9, 7),))):
        veery.jit(lambda *xs, fun=fun: fun(*xs)).lower(*operands).compile()
    assert found and all(before == after for before, after in found)


@pytest.mark.parametrize(
    ("element", "narrow"),
    [
        *(("i1", True), ("i4", True), ("f4E2M1FN", True), ("index", True)),  # as its size is not looked up
        *(("i8", False), ("i64", False), ("f16", False), ("bf16", False), ("f64", False), ("complex<f32>", False)),
    ],
)
def test_memory_of_less_than_bytes_is_seen(element: str, narrow: bool) -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @f() {{ %0 = memref.alloca() : memref<4x{element}>\n return }}")
        assert any(map(to_llvm._is_narrow, operations(module.operation))) is narrow
