"""What IREE's compiler makes of a module on its way to a program, as text."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from veery_lowering.compiler.compile import Prepared, Run, attempts_of, compiler_of, modules, try_each
from veery_lowering.emit.module import Emission
from veery_lowering.errors import CompileError
from veery_lowering.program import Options
from veery_lowering.targets import Flags, Target

PHASES = ("input", "abi", "flow", "stream", "executable-sources", "hal", "vm")
PHASES_OF_ALL = PHASES[:5]  # to which modules come that call LAPACK by addresses, too
CODE = {"llvm": "*.optimized.ll", "asm": "*.s", "spirv": "*.spirv.mlir", "ptx": "*.ptx"}


def intermediate(
    emission: Emission, target: Target, options: Options, phase: str, *, debug_info: bool = False
) -> tuple[str, Prepared]:
    """The text of IREE's own IR after one of `PHASES`, or the code of its dispatches, one of `CODE`; and the module.

    With `debug_info` the IR says where in the user's files its operations come from.

    Raises:
        ValueError: no such phase, or code that the target does not have.
        CompileError: the module does not compile.
    """
    if phase not in (*PHASES, *CODE):
        raise ValueError(f"there is no dialect or phase {phase!r}; known are stablehlo, {', '.join((*PHASES, *CODE))}")
    flags, shortly = attempts_of(emission, target, options)[0]
    failed: CompileError | None = None
    run = compiler_of(options, target)
    for fusion, plain in modules(emission, target, options):  # as compilation goes on where IREE fails
        accepted = lambda module, check: (
            module if check is None or run(module.code, flags, "stream", check=check)[0] else None
        )
        prepared = plain if shortly else try_each(emission, target, fusion, plain, accepted) or plain
        try:
            if phase in CODE:
                return _generated_code(prepared.code, flags, target, phase, run), prepared
            text, diagnostics = run(prepared.code, flags, phase, locations=debug_info)
            if text is not None:
                return text.decode(), prepared
            failed = failed or CompileError("\n".join(d.message for d in diagnostics))
        except CompileError as error:
            failed = failed or error
    assert failed is not None
    raise failed


def temporary_bytes(emission: Emission, target: Target, options: Options) -> int:
    """The bytes of transient allocations that the program makes, of those whose sizes are known."""
    text, _ = intermediate(emission, target, options, "stream")
    sizes = re.findall(r"stream\.resource\.alloca .*!stream\.resource<transient>\{%c(\d+)(?:_\d+)?\}", text)
    return sum(map(int, sizes))


def _generated_code(module: bytes, flags: Flags, target: Target, kind: str, run: Run) -> str:
    with tempfile.TemporaryDirectory(prefix="veery-code-") as folder:
        program, diagnostics = run(module, (*flags, f"--iree-hal-dump-executable-files-to={folder}"))
        if program is None:
            raise CompileError("\n".join(d.message for d in diagnostics))
        files = sorted(Path(folder).glob(CODE[kind]))
        comment = {"llvm": ";", "asm": "#"}.get(kind, "//")
        texts = [f"{comment} {file.name}\n{file.read_text()}" for file in files]
        produced = any(Path(folder).iterdir())
    if not texts and produced:
        raise ValueError(f"target {target.name!r} has no {kind} code")
    return "\n".join(texts)
