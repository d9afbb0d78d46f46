"""What the results of a program must be: by the reference evaluator, and by the values of the functions within."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import veery as jax
from fuzz.nesting import Stage
from fuzz.programs import Program
from veery._core.jaxpr import JaxprEqn, Literal, Var
from veery._reference.agreement import standing
from veery._reference.comparison import Comparison, compare_each
from veery._reference.formats import format_of, held
from veery._reference.interpreter import Interpreter
from veery._reference.rounding import SINGLE
from veery._reference.samples import Value

_SEEDS = 5
# Their derivatives follow from rules of their own, so that a stop_gradient in their bodies says nothing.
_OWN_DERIVATIVES = ("custom_jvp_call", "custom_vjp_call", "custom_linear_solve")


@dataclass(frozen=True)
class Verdict:
    """What was found of a program's results.

    Attributes:
        failures: a line for each result that is wrong, and one on who is alone if several compilers were asked.
        undetermined: the share of elements of which nothing is known.
    """

    failures: list[str]
    undetermined: float


def compiled_failures(closed: Any, args: Sequence[Any], results: Mapping[str, Sequence[Any]]) -> Verdict:
    """Results of compiled programs, by where they ran, beside the reference evaluation of the jaxpr they are made of.

    What is wrong is so whichever the random errors are by which bounds are found. Where several jumps come together
    those of one comparison may all miss what the program did: of a sum of shortest paths in bfloat16, in 1 of 12.
    """
    found: dict[str, Comparison] = {}
    for seed in range(_SEEDS):
        wrong = {name: outs for name, outs in results.items() if name not in found or not found[name].ok}
        found.update(zip(wrong, compare_each(closed, args, list(wrong.values()), 1000 * seed)))
        if all(comparison.ok for comparison in found.values()):
            break
    lines = [f"{name}: {f}" if name else str(f) for name, c in found.items() for f in c.failures]
    if lines and len(found) > 1:
        lines.append(standing(found))
    return Verdict(lines, max(comparison.undetermined for comparison in found.values()))


def rule_failures(program: Program) -> list[str]:
    """What each transformation made, evaluated by the reference, beside the values of the function within."""
    failures = []
    for transformation, stage in zip(program.transformations, program.stages[1:]):
        inner = Evaluator(transformation.inner)
        evaluate = Evaluator(stage)
        found = list(transformation.expected(inner, evaluate(*stage.args)))
        wrong = [i for i, expected in enumerate(found) if _difference(*expected)]
        if wrong:
            others = [list(transformation.expected(inner, evaluate.inexact(seed, *stage.args))) for seed in range(3)]
            for what, actual, value, error in (found[i] for i in wrong):
                if np.shape(actual) == np.shape(value):
                    same = [o.actual for other in others for o in other if o.what == what]
                    error = error + 2 * _reach(actual, same)
                text = _difference(what, actual, value, error)
                failures.extend([text] if text else [])
    return failures


class Evaluator:
    """The reference evaluation of a stage, whose arguments may be in double precision."""

    def __init__(self, stage: Stage):
        self._closed = jax.make_jaxpr(stage.fun)(*stage.args)

    def __call__(self, *xs: np.ndarray) -> list[np.ndarray]:
        return self._run(RealNumbers([]), xs)

    def inexact(self, seed: int, *xs: np.ndarray) -> list[np.ndarray]:
        """The evaluation with other constants, within the rounding of narrow formats: rules write theirs in these."""
        return self._run(RealNumbers([], rng=np.random.default_rng(seed)), xs)

    def about(self, *xs: np.ndarray) -> Callable[..., list[np.ndarray]]:
        """The evaluation near some arguments: what has no gradient stays as it is there."""
        held_back: list[Value] = []
        self._run(RealNumbers(held_back), xs)
        return lambda *ys: self._run(RealNumbers(list(held_back), replay=True), ys)

    def _run(self, interpreter: Interpreter, xs: Sequence[np.ndarray]) -> list[np.ndarray]:
        values = [(_unrounded(x, aval.dtype),) for x, aval in zip(xs, self._closed.in_avals, strict=True)]
        return [value[0] for value in interpreter.run(self._closed, values, 1)]


class RealNumbers(Interpreter):
    """The reference without the rounding of arguments and of conversions, so that small differences are seen.

    Args:
        held_back: the results of stop_gradient, in order: appended to, or with `replay` taken from it.
        rng: if given, of errors of constants in formats narrower than float32.
    """

    def __init__(self, held_back: list[Value], replay: bool = False, rng: np.random.Generator | None = None):
        super().__init__(np.random.default_rng(0))
        self._errors = rng
        self._held_back: list[Value] | None = held_back
        self._replay = replay

    def read(self, env: dict[Var, Value], atom: Any, count: int) -> Value:
        form = format_of(atom.aval.dtype) if self._errors and type(atom) is Literal else None
        value = super().read(env, atom, count)
        if self._errors is None or form is None or form.eps <= SINGLE or np.all(value[0] == np.rint(value[0])):
            return value
        return (value[0] * (1 + self._errors.choice((-0.5, 0.5)) * form.eps),)

    def apply(self, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
        if eqn.primitive.name in ("convert_element_type", "reduce_precision"):
            source, out = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
            if format_of(source) and format_of(out):
                x = operands[0][0]
                return [(x.real if held(0, out).dtype.kind == "f" else x.astype("complex128"),)]
        if eqn.primitive.name in _OWN_DERIVATIVES:
            held_back, self._held_back = self._held_back, None
            solves = eqn.primitive.name == "custom_linear_solve"
            outs = self._solved(eqn, operands) if solves else super().apply(eqn, operands, count)
            self._held_back = held_back
            return outs
        if eqn.primitive.name == "stop_gradient" and self._held_back is not None:
            if self._replay:
                return [self._held_back.pop(0)]
            self._held_back.append(operands[0])
        return super().apply(eqn, operands, count)

    def _solved(self, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
        """The solution by the product's own matrix: what a solver is given has no gradient, and may be held back."""
        product = eqn.params["problem"].matvec
        known = operands[: eqn.params["lengths"][0]]
        right = [value[0] for value in operands[sum(eqn.params["lengths"]) :]]
        ends = np.cumsum([x.size for x in right])

        def arrays(flat: np.ndarray) -> list[np.ndarray]:
            return [part.reshape(x.shape) for part, x in zip(np.split(flat, ends[:-1]), right)]

        def image(flat: np.ndarray) -> np.ndarray:
            outs = self.run(product, [*known, *((x,) for x in arrays(flat))], 1)
            return np.concatenate([out[0].ravel() for out in outs])

        goal = np.concatenate([x.ravel() for x in right])
        matrix = np.stack([image(unit) for unit in np.eye(goal.size, dtype=goal.dtype)], axis=1)
        return [(x,) for x in arrays(np.linalg.solve(matrix, goal))]


def _unrounded(x: np.ndarray, dtype: Any) -> np.ndarray:
    return np.asarray(x, held(0, dtype).dtype) if format_of(dtype) else held(x, dtype)


def _reach(x: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """How far other arrays are from one, element by element."""
    return np.max([np.abs(np.subtract(y, x, dtype=np.result_type(x, np.float64))) for y in others], axis=0)


def _difference(what: str, actual: Any, value: Any, error: Any) -> str:
    actual, value = np.asarray(actual), np.asarray(value)
    if actual.shape != value.shape:
        return f"{what} has the shape {actual.shape}, expected {value.shape}"
    with np.errstate(all="ignore"):
        if actual.dtype.kind in "biu":
            wrong = actual != value
        else:
            same = (actual == value) | (np.isnan(actual) & np.isnan(value))
            wrong = ~same & ~(np.abs(actual - value) <= error) & np.isfinite(error) & np.isfinite(value)
    if not wrong.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f" at {list(index)}" if index else ""
    return (
        f"{what}: {int(wrong.sum())} of {wrong.size} elements differ;{at} the reference of the transformed function "
        f"gives {actual[index]}, the function's own values say {value[index]} within {np.asarray(error)[index]:.3g}"
    )
