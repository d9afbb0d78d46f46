"""Hand-made jaxprs for tests of the lowering: no frontend needed, and many checks in one compiled module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import veery_lowering
import veery_runtime
from veery._core.primitive import Primitive, all_primitives


class Aval:
    """A stand-in for ShapedArray."""

    def __init__(self, shape: Sequence[int], dtype: Any, weak_type: bool = False):
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype) if not hasattr(dtype, "physical") else dtype
        self.weak_type = weak_type
        self.ndim = len(self.shape)
        self.size = math.prod(self.shape)


class Var:
    """A variable."""

    def __init__(self, aval: Aval):
        self.aval = aval


class Literal:
    """A scalar constant."""

    def __init__(self, value: Any, dtype: Any):
        self.val = np.asarray(value, dtype)
        self.aval = Aval(self.val.shape, dtype)


def primitive_of(name: str) -> Primitive:
    """The primitive of that name, or one without rules where there is none."""
    return next((p for p in all_primitives if p.name == name), None) or Primitive(name)


class Graph:
    """A jaxpr under construction, the values of its inputs, and what its outputs should be."""

    def __init__(self, *avals: tuple[Sequence[int], Any]):
        self.values: list[np.ndarray] = []
        self.invars: list[Var] = [Var(Aval(shape, dtype)) for shape, dtype in avals]
        self.eqns: list[Any] = []
        self.outvars: list[Any] = []
        self.expected: list[tuple[str, np.ndarray, float]] = []
        self.consts: list[np.ndarray] = []
        self.constvars: list[Var] = []

    def input(self, array: Any) -> Var:
        """A new argument with a value."""
        array = np.asarray(array)
        self.values.append(array)
        self.invars.append(Var(Aval(array.shape, array.dtype)))
        return self.invars[-1]

    def const(self, array: Any) -> Var:
        """A captured constant."""
        self.consts.append(np.asarray(array))
        self.constvars.append(Var(Aval(self.consts[-1].shape, self.consts[-1].dtype)))
        return self.constvars[-1]

    def ops(
        self,
        primitive: str,
        atoms: Sequence[Any],
        outs: Sequence[tuple[Sequence[int], Any]],
        /,
        *,
        line: tuple[str, int] | None = None,
        **params: Any,
    ) -> list[Var]:
        """An equation of several results, given as (shape, dtype)."""
        outvars = [Var(Aval(shape, dtype)) for shape, dtype in outs]
        source = None if line is None else SimpleNamespace(file=line[0], line=line[1], function="f", name_stack="")
        self.eqns.append(
            SimpleNamespace(
                invars=list(atoms),
                outvars=outvars,
                primitive=primitive_of(primitive),
                params=params,
                effects=frozenset(),
                source_info=source,
            )
        )
        return outvars

    def op(
        self, primitive: str, /, *atoms: Any, out: Sequence[int] | None = None, of: Any = None, **params: Any
    ) -> Var:
        """An equation of one result of shape `out` and dtype `of`; by default it is like the first operand."""
        shape = atoms[0].aval.shape if out is None else out
        dtype = atoms[0].aval.dtype if of is None else of
        return self.ops(primitive, atoms, [(shape, dtype)], **params)[0]

    def check(self, name: str, var: Any, expected: Any, tolerance: float = 0.0) -> None:
        """Make `var` an output that must equal `expected`."""
        self.outvars.append(var)
        self.expected.append((name, np.asarray(expected), tolerance))

    def closed(self, *outvars: Any, name: str = "f") -> Any:
        """The closed jaxpr."""
        jaxpr = SimpleNamespace(
            constvars=self.constvars,
            invars=self.invars,
            outvars=list(outvars) or self.outvars,
            eqns=self.eqns,
            effects=frozenset(),
            debug_info=SimpleNamespace(name=name, arg_names=None, file=None, line=None),
        )
        return SimpleNamespace(
            jaxpr=jaxpr,
            consts=self.consts,
            in_avals=[v.aval for v in jaxpr.invars],
            out_avals=[v.aval for v in jaxpr.outvars],
        )

    def text(self, target: str = "cpu", **options: Any) -> str:
        """The StableHLO of the graph."""
        return veery_lowering.lower(self.closed(), target=target, **options).as_text()

    def run(self, **options: Any) -> list[np.ndarray]:
        """Compile and run on the CPU; compare the outputs, and check that no argument was written to."""
        program = veery_lowering.compile(self.closed(), **options)
        results = execute(program, self.values)
        for (name, expected, tolerance), result in zip(self.expected, results):
            assert result.dtype == expected.dtype, f"{name}: dtype {result.dtype}, expected {expected.dtype}"
            assert result.shape == expected.shape, f"{name}: shape {result.shape}, expected {expected.shape}"
            if tolerance:
                wide = [x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (result, expected)]
                np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance, err_msg=name)
            elif result.dtype.kind == "V":  # NumPy does not know that a NaN of bfloat16 is one
                np.testing.assert_array_equal(result.astype(np.float32), expected.astype(np.float32), err_msg=name)
            else:
                np.testing.assert_array_equal(result, expected, err_msg=name)
        return results


def execute(program: Any, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run a program on the CPU with NumPy arrays; fails if it writes into an argument that is not donated."""
    device = veery_runtime.devices("cpu")[0]
    buffers = [veery_runtime.put(value, device) for value in values]
    outputs = [np.array(buffer.numpy()) for buffer in veery_runtime.load(program, device)(buffers)]
    for i, (buffer, value) in enumerate(zip(buffers, values)):
        if not program.donated[i]:
            after = buffer.numpy()
            assert after.tobytes() == np.ascontiguousarray(value).tobytes(), f"argument {i} was written to"
    return outputs
