"""What a target is, and the compiler options of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Flags = tuple[str, ...]


@dataclass(frozen=True)
class Product:
    """A dot_general as batch x m x k x n."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str


@dataclass(frozen=True)
class Traits:
    """What the choice of options looks at.

    operations: names of the operations with their element types, as ("stablehlo.sine", "float64").
    products: the contractions.
    is_rowwise: whether what is reduced are the rows of arrays of one shape (see targets/fusion.py).
    """

    operations: frozenset[tuple[str, str]]
    products: tuple[Product, ...]
    is_rowwise: bool = False


@dataclass(frozen=True)
class Target:
    """A way to compile.

    name: as the user wrote it; backend: "cpu", "vulkan", "cuda" or "xla", by which rules are chosen.
    attempts: option lists for a program, the preferred one first; the next is tried when the compiler fails.
    machine: what the code depends on beside the name (the CPU's features); enters the cache key.
    compiles_shortly: whether the short pipeline (compiler/short.py) is right for options.
    hardware: what the programs run on: the backend, but for XLA, which has several.
    keeps_nan: bits of the floats whose NaN its drivers keep if they are asked to.
    """

    name: str
    backend: str
    attempts: Callable[[Traits], list[Flags]]
    machine: str = ""
    compiles_shortly: Callable[[Flags], bool] = lambda flags: False
    hardware: str = ""
    keeps_nan: tuple[int, ...] = ()

    @property
    def register(self) -> int:
        """Bytes of a vector register of the machine, as far as one knows it."""
        return next((size for feature, size in _REGISTERS.items() if feature in self.machine.split()), 16)

    def __post_init__(self) -> None:
        if not self.hardware:
            object.__setattr__(self, "hardware", self.backend)


_REGISTERS = {"avx512f": 64, "avx2": 32}  # by feature, the widest first

COMMON_FLAGS: Flags = (
    "--iree-input-type=stablehlo",
    "--iree-opt-level=O3",
    # Off at this level: it packs every operand, which costs more than it brings for all but large products.
    "--iree-opt-data-tiling=false",
    # On from O2: takes the conversion that it fuses into a product for a signed one (test_iree_faults).
    "--iree-opt-generalize-matmul=false",
    # On from O3: attention, its gradient, a transformer block and a Hessian take 0.93 of the time without.
    "--iree-opt-aggressively-propagate-transposes=false",
    # On from O1: of 32 programs none is another without.
    "--iree-opt-outer-dim-concat=false",
    # Evaluating constants costs a compilation 0.3 to 0.5 s, brings nothing to what is computed of them once, when the
    # program is loaded, and fails for some ("jit global source initialization order invalid").
    "--iree-opt-const-eval=false",
    # On by default: float64 programs would silently be float32 ones.
    "--iree-input-demote-f64-to-f32=false",
    # Calls return before the work is done; the runtime passes a fence to wait on and one to signal.
    "--iree-execution-model=async-external",
)

# Programs that call Python functions return when they are done. With fences IREE 3.13 loses some of calls without
# results (of two that stem from one dispatch one is never signalled), and waits for what a function is to signal before
# it has called it. Each fence between two functions is a thread to wake, too: lu and two triangular solves of 64x64
# took 600 us with fences, of which 230 in LAPACK.
SYNCHRONOUS = "--iree-execution-model=async-internal"


# What a program asks for beside speed. Without what is for debuggers it is a sixth smaller (x + 1: 10.3 to 8.6 kB, the
# gradient of three layers: 27.5 to 24.1 kB). There is no goal of compiling quickly: at O0, O2 and O3 both take the same
# time within the noise.
GOAL_FLAGS: dict[str, Flags] = {
    "speed": (),
    "size": (
        "--iree-llvmcpu-debug-symbols=false",
        "--iree-hal-executable-debug-level=0",
        "--iree-vm-bytecode-module-strip-source-map=true",
        "--iree-vm-bytecode-module-strip-debug-ops=true",
    ),
}
