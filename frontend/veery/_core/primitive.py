"""Primitives: the operations that are traced, with all their rules as fields."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from veery._core import ad, provided, refs
from veery._core.ad import LINEAR, MULTILINEAR, NONDIFFERENTIABLE, Zero, instantiate_zeros
from veery._core.avals import aval_of
from veery._core.cost import per_result
from veery._core.trace import Trace, current_trace, set_current_trace

Rule = Callable[..., Any]
JvpRule = Rule | Sequence[Rule | None] | ad._JvpForm | None


all_primitives: WeakSet[Primitive] = WeakSet()


class Primitive:
    """An operation that transformations know by its rules.

    Args:
        name: as printed in jaxprs, and the key of its lowering rule.
        abstract_eval: `(*avals, **params)` -> aval (a list of them if multiple_results).
        jvp: a full rule `(primals, tangents, **params) -> (out, tangent)`; or a tuple with a rule
            `(t, out, *operands, **params) -> contribution` or None for each operand; or LINEAR (jointly linear in
            all operands), MULTILINEAR (linear in each) or NONDIFFERENTIABLE (no tangent).
        linearize: `(nonzeros, *primals, **params) -> (out, nonzeros_out, residuals, linear)` where
            `linear(residuals, *tangents)` binds linear operations; only where the jvp rule is no good for it.
        transpose: `(ct, *operands, **params)` -> cotangents, None for operands that are not linear.
        batch: `(args, dims, **params) -> (out, out_dim)`.
        axis_batch: `(axis_data, args, dims, **params)`, for operations that need the axis' name or size.
        reference: `(*ndarrays, **params)` in NumPy.
        divide: `(eqn, needed, policy)` -> the equation divided by a policy of `checkpoint`, and what is saved inside it
            (see veery._transforms.remat), for operations with functions in them.
        composition: `(*operands, **params)` in terms of other primitives: what it is lowered to where a target, or a
            program that is saved, has nothing better.
        lowered_as: `(*operands, **params)` -> list of results, in terms of others: what it is in programs, for
            primitives made outside veery (see veery._transforms.expansion).
        impl: eager evaluation; None compiles the operation.
        effects: `(*avals, **params)` -> set of effects.
        cost: `(eqn)` -> what it costs (see veery._core.cost); an operation for each element of the results if not said.
        checks: what `checkify` looks for where it is applied: "nan", "index" (out of bounds) or "division" (by zero).
        host: `(eqn, known)` -> how NumPy evaluates it with the bits of a compiled program (see veery._core.host);
            None compiles it.
        stands_for: the parameter with the function that it is once it is lowered: its derivative or memory is special.
        with_refs: `(primitive, args, params)` -> results, in a trace that knows the values of references among the
            arguments or made inside, for operations with functions in them (see veery._transforms.discharge).
        takes_refs: whether its rules for transformations take references as constants, or a function that tells it of
            the parameters.
        transposes_zeros: whether the rule `transpose` is called even if all cotangents are zero: what a user wrote may
            give something else for them.
        shown: `(eqn, operands, results)` -> the equation as text, given how operands and results are printed, where it
            does not look like a call.
        inert: parameters that do not change what is computed.
        varies: within `shard_map`, `(varying, **params)` -> the mesh axes along which the operands must vary, and those
            along which the result does, given those of all operands; None where it is like the operands. None in the
            place of the former leaves the operands as they are; of the latter, the types of the results say it.
        divides: `(avals, outs, params)` -> for each result, the Explicit axes of a mesh that divide each dimension (see
            veery.lax._explicit); None where no operand may be divided. Those with functions in them need none.
        keeps_memory: whether the result is in the memory of the first operand, whichever the others are in.
        apart: `(params)` -> whether it is done on several devices, and so not as a part of a program.
        multiple_results: whether rules take and give lists of results.
    """

    # What libraries ask primitives of JAX for: whether they call, or map, a jaxpr called `call_jaxpr`.
    call_primitive = False
    map_primitive = False
    multiple_results = False

    def __init__(
        self,
        name: str,
        *,
        abstract_eval: Rule | None = None,
        jvp: JvpRule = None,
        linearize: Rule | None = None,
        transpose: Rule | None = None,
        batch: Rule | None = None,
        axis_batch: Rule | None = None,
        divide: Rule | None = None,
        reference: Rule | None = None,
        composition: Rule | None = None,
        impl: Rule | None = None,
        effects: Rule | None = None,
        cost: Rule | None = None,
        checks: Sequence[str] = (),
        host: Rule | None = None,
        stands_for: str | None = None,
        with_refs: Rule | None = None,
        takes_refs: bool | Rule = False,
        transposes_zeros: bool = False,
        shown: Rule | None = None,
        inert: Sequence[str] = (),
        varies: Rule | None = None,
        divides: Rule | None = None,
        keeps_memory: bool = False,
        apart: Rule | None = None,
        multiple_results: bool = False,
    ):
        self.name = name
        self.abstract_eval = abstract_eval
        self.jvp = jvp
        self.linearize = linearize
        self.transpose = transpose
        self.batch = batch
        self.axis_batch = axis_batch
        self.divide = divide
        self.reference = reference
        self.composition = composition
        self.lowered_as: Rule | None = None
        self.impl = impl
        self.effects = effects
        self.cost = cost or per_result
        self.checks = frozenset(checks)
        self.host = host
        self.stands_for = stands_for
        self.with_refs = with_refs
        self.takes_refs = takes_refs
        self.transposes_zeros = transposes_zeros
        self.shown = shown
        self.inert = frozenset(inert)
        self.varies = varies
        self.divides = divides
        self.keeps_memory = keeps_memory
        self.apart = apart
        self.multiple_results = multiple_results or type(self).multiple_results
        self._take_methods()
        all_primitives.add(self)

    def _take_methods(self) -> None:
        """Take what a class made outside veery defines in the place of the rules, as methods with JAX's signatures."""
        if (impl := getattr(type(self), "impl", None)) is not None:
            self.impl = functools.partial(impl, self)
        if (abstract_eval := getattr(type(self), "abstract_eval", None)) is not None:
            self.def_effectful_abstract_eval(functools.partial(abstract_eval, self))

    # Rules one by one, for primitives made outside veery.

    def def_impl(self, impl: Rule) -> Rule:
        """Set the eager evaluation `(*arrays, **params)` and return it."""
        self.impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval: Rule) -> Rule:
        """Set the rule `(*avals, **params) -> aval` (or list of avals) and return it."""
        self.abstract_eval = abstract_eval
        return abstract_eval

    def def_effectful_abstract_eval(self, abstract_eval: Rule) -> Rule:
        """Set the rule `(*avals, **params) -> (aval, effects)` and return it."""
        self.abstract_eval = lambda *avals, **params: abstract_eval(*avals, **params)[0]
        self.effects = lambda *avals, **params: abstract_eval(*avals, **params)[1]
        return abstract_eval

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation in the current trace."""
        if self.with_refs is not None:
            return refs.bind(self, args, params)
        return current_trace().process_primitive(self, args, params)

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], avals: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply the operation in a trace, as traces made outside veery do; the avals are those of the arguments."""
        with set_current_trace(trace):
            return self.bind(*args, **params)

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters with which an equation of this operation is applied: `bind(*args, **parameters)`."""
        return dict(params)

    def run(self, *args: Any, **params: Any) -> Any:
        """Apply the operation to concrete values."""
        if self.impl is not None:
            return self.impl(*args, **params)
        return provided.backend.run_primitive(self, args, params)

    @functools.lru_cache(maxsize=256)  # noqa: B019  primitives live as long as the program
    def composed(self, avals: tuple[Any, ...], params: tuple[tuple[str, Any], ...]) -> Any:
        """The composition for operands of some avals as a closed jaxpr."""
        composition = self.composition
        if composition is None:
            raise NotImplementedError(f"{self.name} has no composition")
        results: Callable[[Any], Any] = lambda out: out if self.multiple_results else [out]
        return provided.operations.stage(lambda *operands: results(composition(*operands, **dict(params))), avals)

    def apply_jvp(self, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        """Outputs and tangents, by whichever form of jvp rule the primitive has."""
        rule = self.jvp
        if rule is None:
            raise NotImplementedError(f"Differentiation rule for '{self.name}' not implemented")
        if callable(rule):
            result: tuple[Any, Any] = rule(primals, tangents, **params)
            return result
        out = self.bind(*primals, **params)
        if rule is NONDIFFERENTIABLE:
            return out, self._zeros(out)
        if rule is LINEAR:
            return out, self.bind(*map(instantiate_zeros, tangents), **params)
        rules: Any = [self._replace_operand(i) for i in range(len(primals))] if rule is MULTILINEAR else rule
        terms = [
            per_operand(t, out, *primals, **params)
            for per_operand, t in zip(rules, tangents, strict=True)
            if per_operand is not None and type(t) is not Zero
        ]
        return out, ad.sum_tangents(aval_of(out).to_tangent_aval(), terms)

    def _zeros(self, out: Any) -> Any:
        if self.multiple_results:
            return [Zero.from_primal_value(o) for o in out]
        return Zero.from_primal_value(out)

    def _replace_operand(self, i: int) -> Rule:
        return lambda t, out, *operands, **params: self.bind(*operands[:i], t, *operands[i + 1 :], **params)
