"""Where programs run: on the CPU or a GPU, by IREE alone, by XLA, or saved to a file that the runtime loads."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import veery as jax
from fuzz.programs import Program
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, subjaxprs

Arrays = Sequence[np.ndarray]
TARGETS = (
    *("cpu", "iree", "vulkan", "cuda", "xla", "cpu+xla", "artifact"),
    *("stablehlo", "stablehlo-iree", "stablehlo-vulkan", "stablehlo-cuda", "stablehlo-xla"),
    *("triples", "triples-iree", "triples-vulkan", "triples-cuda", "triples-xla"),
)
_RUNTIME = Path(__file__).parents[2] / "runtime"
_VULKAN_TYPES = ("bool", "int32", "uint32", "float32", "complex64")


class Unsupported(Exception):
    """A program has types that the target's device has not."""


class Unsteady(Exception):
    """A program's results differ from call to call."""


class Target:
    """Compiles and runs programs. `half` and `wide` say whether the device computes in 16 and in 64 bits."""

    half = wide = True
    options: Mapping[str, Any] = {}

    @property
    def parts(self) -> dict[str, Target]:
        """The targets that run each program, by name: this one, whose name says nothing."""
        return {"": self}

    def run(self, fun: Any, args: Arrays, donated: tuple[int, ...], closed: ClosedJaxpr) -> list[np.ndarray]:
        """Results of a function, whose jaxpr is `closed`, by the compiled program.

        A call with zeros comes first: what a device keeps of a program's first call is wrong in the second. What calls
        with the same arguments give has the same bits, or something is read before it is written.
        """
        call = jax.jit(fun, donate_argnums=donated, compiler_options=self.options)
        with self.device():
            kept = [call(*map(jax.numpy.asarray, values)) for values in (map(np.zeros_like, args), *[args] * 3)]
        _, *results = [[_numpy(y) for y in outs] for outs in kept]
        for again in results[1:]:
            if [y.tobytes() for y in again] != [y.tobytes() for y in results[0]]:
                raise Unsteady(f"calls with the same arguments give {results[0]} and {again}")
        return results[0]

    @contextmanager
    def device(self) -> Iterator[None]:
        yield


class Iree(Target):
    """The CPU, where IREE makes all dispatches, as it does for large arrays."""

    options = {"kernels": False}


class Vulkan(Target):
    """The first Vulkan device, for programs of the types that all such devices have."""

    half = wide = False

    def run(self, fun: Any, args: Arrays, donated: tuple[int, ...], closed: ClosedJaxpr) -> list[np.ndarray]:
        if missing := sorted(types_of(closed) - {*_VULKAN_TYPES, "key<fry>", "float0"}):
            raise Unsupported(", ".join(missing))
        return super().run(fun, args, donated, closed)

    @contextmanager
    def device(self) -> Iterator[None]:
        with jax.default_device(jax.devices("vulkan")[0]):
            yield


class Cuda(Target):
    """The first GPU of NVIDIA's driver."""

    @contextmanager
    def device(self) -> Iterator[None]:
        with jax.default_device(jax.devices("cuda")[0]):
            yield


class Xla(Target):
    """The first device of XLA's CPU plugin."""

    @contextmanager
    def device(self) -> Iterator[None]:
        with jax.default_device(jax.devices("xla")[0]):
            yield


class Beside(Target):
    """Several targets, which all run each program, so that their results can be compared."""

    def __init__(self, parts: dict[str, Target]):
        self._parts = parts
        self.half, self.wide = (all(getattr(p, width) for p in parts.values()) for width in ("half", "wide"))

    @property
    def parts(self) -> dict[str, Target]:
        return self._parts


class Artifact(Target):
    """A file with the compiled program, loaded and run by a process that has the runtime alone."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="veery-fuzz-")

    def run(self, fun: Any, args: Arrays, donated: tuple[int, ...], closed: ClosedJaxpr) -> list[np.ndarray]:
        path = Path(self._folder.name) / "program.vmfb"
        specs = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in args)
        jax.aot.compile(jax.jit(fun, donate_argnums=donated), specs, out=path)
        if self._process is None or self._process.poll() is not None:
            self._process = _runtime_process()
        assert self._process.stdin and self._process.stdout
        pickle.dump((str(path), list(args)), self._process.stdin)
        self._process.stdin.flush()
        try:
            outs = pickle.load(self._process.stdout)
        except EOFError:
            raise Crash(f"the runtime's process ended with {self._process.wait()}") from None
        if isinstance(outs, str):
            raise RuntimeError(f"in the runtime: {outs}")
        return outs


class Crash(Exception):
    """A process of a program's own has ended."""


_LOOP = """
import os, pickle, sys
outs = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path += {paths!r}
sys.path.insert(0, {runtime!r})
import numpy, veery_runtime
while True:
    try:
        path, args = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    try:
        program = veery_runtime.load(path)
        program(*map(numpy.zeros_like, args))
        found = program(*args)
        found = [numpy.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]
    except Exception as error:
        found = type(error).__name__ + ": " + str(error)
    assert not {{"veery", "veery_lowering", "iree.compiler"}} & set(sys.modules)
    pickle.dump(found, outs)
    outs.flush()
"""


def _runtime_process() -> subprocess.Popen[bytes]:
    paths = [p for p in sys.path if p.endswith("site-packages")]
    script = _LOOP.format(paths=paths, runtime=str(_RUNTIME))
    return subprocess.Popen([sys.executable, "-S", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def target_named(name: str) -> Target:
    """One of `TARGETS`: where a program runs, a module of StableHLO, or a program of triples of steps."""
    if name not in TARGETS:
        raise ValueError(f"no such target: {name!r}")
    if "+" in name:
        return Beside({part: target_named(part) for part in name.split("+")})
    return {"iree": Iree, "vulkan": Vulkan, "cuda": Cuda, "xla": Xla, "artifact": Artifact}.get(
        name.rpartition("-")[2], Target
    )()


def run_program(program: Program, target: Target) -> tuple[ClosedJaxpr, dict[str, list[np.ndarray]]]:
    """The jaxpr of a program, and its results on each part of a target."""
    closed = jax.make_jaxpr(program.fun)(*program.args)
    results = {}
    for name, part in target.parts.items():
        try:
            results[name] = part.run(program.fun, program.args, program.donated, closed)
        except Exception as error:
            error.add_note(f"on {name}") if name else None
            raise
    return closed, results


def _numpy(x: Any) -> np.ndarray:
    return np.array(np.asarray(x))


def types_of(jaxpr: ClosedJaxpr | Jaxpr) -> set[str]:
    """The names of the dtypes of all variables of a jaxpr and of those in it."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    names = {str(v.aval.dtype) for v in [*inner.constvars, *inner.invars] if hasattr(v.aval, "dtype")}
    for eqn in inner.eqns:
        names |= {str(v.aval.dtype) for v in eqn.outvars if hasattr(v.aval, "dtype")}
        for sub in subjaxprs(eqn.params):
            names |= types_of(sub)
    return names
