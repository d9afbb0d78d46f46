"""Machine code of a program's dispatches, made by several threads.

LLVM gets the dispatches of a program as one module, which one thread compiles: half of the time that a large program
takes. So each thread gets a module of its own, without the functions that other threads compile, and the linker puts
together what they make. The code is the same.

Measured on two cores: of the 43 dispatches of a step of training a block of a transformer 470 instead of 730 ms, the
whole program 1220 instead of 1485. A thread more takes 20 ms for what IREE does and LLVM compiles each time, as long as
500 operations take. So a program has no more threads than have as much to do: the sum of a large array, two dispatches
of 106 operations, takes 24 ms by one thread and by two 41.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from veery_lowering.compiler import device_functions, linking
from veery_lowering.mlir import Invocation, inside, ir
from veery_lowering.store.machine import processors

Execute = Callable[[Invocation, str | None, str | None], bool]

# Those that IREE loads when it first makes machine code, and that no thread may load while others are at work.
CODE_DIALECTS = ("io_parameters", "stream")

_WORTH = 500  # operations of LLVM's dialect for which a thread is worth what it takes


def machine_code(
    code: bytes,
    file: Path,
    name: str,
    *,
    threads: bool,
    context: ir.Context,
    new_invocation: Callable[[], AbstractContextManager[Invocation]],
    execute: Execute,
) -> dict[str, linking.Part] | None:
    """Machine code of an executable.

    Args:
        code: a module that has the executable, public and with LLVM's dialect, as bytecode.
        file: the object file that the executable's target says is to be written; it is removed.
        name: tells its functions from those of other executables.
        threads: whether several threads may compile, for which the context has to be ready.
        context: that of the session that compiles it.
        new_invocation: a context with an invocation in that session.
        execute: runs IREE's phases.

    Returns:
        Its functions, by their names; None where the compiler fails.

    Raises:
        linking.Unsupported: code calls a function of the C library.
    """
    with context, ir.Location.unknown():
        module = ir.Module.parse(code).operation
        (executable,) = inside(module)
        functions = _functions(_variant(module))
        shares = _shares(functions, executable) if threads else [functions]
        files = [file.with_stem(f"{file.stem}{k or ''}") for k in range(len(shares))]
        modules = [module, *(module.clone() for _ in shares[1:])]
        if len(shares) > 1:
            for part, path, share in zip(modules, files, shares, strict=True):
                variant = _variant(part)
                target = str(variant.attributes["target"]).replace(str(file), str(path))
                variant.attributes["target"] = ir.Attribute.parse(target)
                _leave_out(variant, set(functions) - set(share))

    def compiled(part: Any) -> bool:
        with new_invocation() as invocation:
            invocation.import_module(part)
            return execute(invocation, "executable-targets", "hal")

    try:
        if not all(_each(compiled, modules)):
            return None
        codes, instead = [path.read_bytes() for path in files], device_functions.instead()
    finally:
        for path in files:
            for made in (path, path.with_suffix(".h")):  # IREE writes a header, too
                made.unlink(missing_ok=True)
    device_functions.keep(codes[0])
    objects = [linking.Object(code, f"{name}{k}", instead) for k, code in enumerate(codes)]
    return {
        function: each.function(function) for each, share in zip(objects, shares, strict=True) for function in share
    }


def _shares(functions: Sequence[str], executable: Any) -> list[Sequence[str]]:
    """Which functions each thread compiles."""
    most = min(processors(), 1 + len(functions) // 2)
    count = max(1, _size(executable, most * _WORTH) // _WORTH)
    return [functions[k::count] for k in range(count)]


def _size(op: Any, most: int) -> int:
    """How many operations an operation has, counted up to a number."""
    count = 0

    def visit(_: Any) -> ir.WalkResult:
        nonlocal count
        count += 1
        return ir.WalkResult.ADVANCE if count < most else ir.WalkResult.INTERRUPT

    op.walk(visit)
    return count


def _each(function: Callable[[Any], bool], modules: Sequence[Any]) -> list[bool]:
    if len(modules) == 1:
        return [function(modules[0])]
    with ThreadPoolExecutor(len(modules)) as pool:
        return list(pool.map(function, modules))


def _variant(module: Any) -> Any:
    (executable,) = inside(module)
    return next(op for op in inside(executable) if op.name == "hal.executable.variant")


def _functions(variant: Any) -> list[str]:
    """The dispatches that a variant has the code of."""
    code = {op.attributes["sym_name"].value for op in inside(_code(variant)) if op.name == "llvm.func"}
    exports = [op.attributes["sym_name"].value for op in inside(variant) if op.name == "hal.executable.export"]
    return [name for name in exports if name in code]


def _leave_out(variant: Any, functions: set[str]) -> None:
    """Take functions out."""
    for op in inside(_code(variant)):
        if op.name == "llvm.func" and op.attributes["sym_name"].value in functions:
            op.erase()


def _code(variant: Any) -> Any:
    return next(op for op in inside(variant) if op.name == "builtin.module")
