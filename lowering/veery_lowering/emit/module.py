"""Jaxpr to StableHLO module: a function for each distinct inner jaxpr, locations from the user's code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.float8 import computes_in_float8, in_float32
from veery_lowering.emit.narrow import bits_alone, wrapped
from veery_lowering.emit.registry import Context, lookup
from veery_lowering.emit.symbolic import check_symbolic, clear_errors, variables
from veery_lowering.errors import LoweringError
from veery_lowering.mlir import context, ir
from veery_lowering.passes import pipeline as passes
from veery_lowering.passes.pipeline import Situation, Stage
from veery_lowering.program import STATIC, HostCall, Signature, Symbols
from veery_lowering.types import (
    AS_BITS,
    FLOAT4,
    aval_type,
    entry_dtype,
    is_static,
    numpy_dtype,
    physical_dtype,
    tensor_type,
)

PLACE_OF_PROGRAM = "veery-program-0000000000"  # as in veery_runtime.pjrt.host
Value: TypeAlias = ir.Value
Place = tuple[str, int]  # file, line


@dataclass
class Emission:
    """A StableHLO module and what was learned while it was built.

    primitives: the primitives that were emitted for each line of the user's code, for error messages.
    donated: for each argument, whether the program may overwrite it.
    calling: the ids of the equations that became calls of Python functions, or have such.
    calls_routines: whether it calls LAPACK's routines by their addresses.
    """

    module: ir.Module
    inputs: Signature
    outputs: Signature
    host_calls: tuple[HostCall, ...]
    primitives: dict[Place, list[str]]
    donated: tuple[bool, ...]
    calling: frozenset[int]
    calls_routines: bool

    @property
    def is_synchronous(self) -> bool:
        """Whether a call of the module has ended when it returns; as in veery_runtime.executable."""
        return bool(self.host_calls)


def emit_module(
    closed_jaxpr: Any,
    name: str,
    target: str,
    donated: Sequence[bool],
    *,
    hardware: str = "",
    protect: bool = True,
    self_contained: bool = False,
    kernels: bool = True,
    routines: bool = True,
    symbols: Symbols = STATIC,
) -> Emission:
    """Build and verify the module of a jaxpr; its entry is the public function `main`.

    Args:
        closed_jaxpr: what to lower; its consts become constants of the module.
        name: of the module, for people.
        target: "cpu", "vulkan", "cuda" or "xla".
        donated: for each argument, whether the program may overwrite it.
        hardware: what the program runs on; the target by default.
        protect: whether arguments that are not donated are kept from being written to.
        self_contained: whether calls of Python functions are refused.
        kernels: whether kernels are written, so that what is small is computed in them.
        routines: whether LAPACK is called by addresses, where it can be, instead of through the host.
        symbols: where the dimension variables are found in the arguments' shapes.
    """
    with context():
        by_address = routines and not self_contained
        emitter = ModuleEmitter(name, target, self_contained, kernels, by_address, symbols, hardware or target)
        emitter.emit_entry(closed_jaxpr)
        with clear_errors(name, symbols):
            passes.run(Stage.EMITTED, emitter.module, Situation(target, tuple(donated), protect))
            emitter.module.operation.verify()
    return Emission(
        emitter.module,
        entry_signature(closed_jaxpr.in_avals),
        entry_signature(closed_jaxpr.out_avals),
        tuple(emitter.host_calls),
        emitter.primitives,
        tuple(donated),
        frozenset(emitter.calling),
        emitter.calls_routines,
    )


def entry_signature(avals: Sequence[Any]) -> Signature:
    """Shapes and dtype names as the runtime sees them; symbolic sizes are texts."""
    sizes: Callable[[Any], tuple[Any, ...]] = lambda shape: tuple(int(n) if is_static(n) else str(n) for n in shape)
    return tuple((sizes(aval.shape), entry_dtype(physical_dtype(aval.dtype).name)) for aval in avals)


def _entry_type(aval: Any) -> ir.Type:
    return tensor_type(aval.shape, entry_dtype(physical_dtype(aval.dtype).name))


class HostCallRefused(LoweringError):
    """A rule wants to call Python in a program that must not."""


@dataclass
class ModuleEmitter:
    """A module under construction; rules reach it through their Context."""

    name: str
    target: str
    self_contained: bool = False
    kernels: bool = True
    routines: bool = True
    symbols: Symbols = STATIC
    hardware: str = ""
    module: ir.Module = field(init=False)
    host_calls: list[HostCall] = field(default_factory=list)
    calls_routines: bool = False
    calling: set[int] = field(default_factory=set)
    primitives: dict[Place, list[str]] = field(default_factory=dict)
    foreign: dict[Any, str] = field(default_factory=dict)  # modules from elsewhere that were merged: symbol
    # id of a jaxpr, and whether a loop calls it: symbol; keeps it alive
    _functions: dict[tuple[int, bool], tuple[str, Any]] = field(default_factory=dict)
    _called_in_loop: bool = False
    _texts: dict[str, str] = field(default_factory=dict)  # text of a function without its name: symbol
    _symbols: set[str] = field(default_factory=lambda: {"main"})
    _calls: int = 0  # of Python functions, as often as they were emitted
    _host_symbols: dict[Any, HostCall] = field(default_factory=dict)
    _call_sites: list[tuple[str, list[Value]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.module = ir.Module.create()
        self.module.operation.attributes["sym_name"] = ir.StringAttr.get(_identifier(self.name))

    # -- functions ---------------------------------------------------------------------------------------------------

    def emit_entry(self, closed_jaxpr: Any) -> None:
        """Emit the jaxpr as the public function `main`."""
        inputs = [_entry_type(aval) for aval in closed_jaxpr.in_avals]
        outputs = [_entry_type(aval) for aval in closed_jaxpr.out_avals]
        with _location_of(closed_jaxpr.jaxpr):
            function, block = self._function("main", inputs, outputs, closed_jaxpr.jaxpr)
            function.attributes["sym_visibility"] = ir.StringAttr.get("public")
            with ir.InsertionPoint(block), hlo.dimension_values(variables(self.symbols, block.arguments)):
                operands = [_to_type(x, aval_type(a)) for x, a in zip(block.arguments, closed_jaxpr.in_avals)]
                results = self.inline(closed_jaxpr, operands)
                _return([_to_type(x, t) for x, t in zip(results, outputs)])

    def call(self, closed_jaxpr: Any, operands: Sequence[Value], name: str | None = None) -> list[Value]:
        """Call the function of a jaxpr, which is emitted the first time.

        With symbolic dimensions its equations are emitted here, where the values of the variables are known.
        """
        if self.symbols.sources:
            return self.inline(closed_jaxpr, operands)
        symbol = self._symbol_of(closed_jaxpr, name)
        return hlo.call(symbol, operands, [aval_type(aval) for aval in closed_jaxpr.out_avals])

    def _symbol_of(self, closed_jaxpr: Any, name: str | None) -> str:
        in_loop = self.in_loop()
        known = self._functions.get((id(closed_jaxpr), in_loop))
        if known is not None:
            return known[0]
        symbol = self._unique(name or getattr(_debug_info(closed_jaxpr.jaxpr), "name", None) or "function")
        inputs = [aval_type(aval) for aval in closed_jaxpr.in_avals]
        outputs = [aval_type(aval) for aval in closed_jaxpr.out_avals]
        with _location_of(closed_jaxpr.jaxpr):
            function, block = self._function(symbol, inputs, outputs, closed_jaxpr.jaxpr)
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
            outside, self._called_in_loop = self._called_in_loop, in_loop
            with ir.InsertionPoint(block):
                _return(self.inline(closed_jaxpr, block.arguments))
            self._called_in_loop = outside
        # Equal functions of different jaxprs (a transformation traced the same function twice) become one.
        text = function.get_asm(enable_debug_info=False, assume_verified=True).replace(f"@{symbol}(", "@(", 1)
        first = self._texts.setdefault(text, symbol)
        if first != symbol:
            function.erase()
            self._symbols.discard(symbol)
        self._functions[id(closed_jaxpr), in_loop] = (first, closed_jaxpr)
        return first

    def in_loop(self) -> bool:
        """Whether a loop contains or calls what is emitted now."""
        op = ir.InsertionPoint.current.block.owner
        while op is not None and op.name not in ("stablehlo.while", "func.func"):
            op = op.parent
        return self._called_in_loop or (op is not None and op.name == "stablehlo.while")

    def _function(
        self, symbol: str, inputs: Sequence[ir.Type], outputs: Sequence[ir.Type], jaxpr: Any
    ) -> tuple[ir.Operation, ir.Block]:
        attributes = {
            "sym_name": ir.StringAttr.get(symbol),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(outputs))),
        }
        with ir.InsertionPoint(self.module.body):
            function = ir.Operation.create("func.func", attributes=attributes, regions=1)
        here = ir.Location.current
        names = _argument_names(jaxpr, len(inputs))
        locations = [ir.Location.unknown() if name is None else ir.Location.name(name, here) for name in names]
        return function, function.regions[0].blocks.append(*inputs, arg_locs=locations)

    def _unique(self, name: str) -> str:
        base = _identifier(name)
        symbol, count = base, 0
        while symbol in self._symbols:
            count += 1
            symbol = f"{base}_{count}"
        self._symbols.add(symbol)
        return symbol

    # -- equations ---------------------------------------------------------------------------------------------------

    def inline(self, closed_jaxpr: Any, operands: Sequence[Value]) -> list[Value]:
        """Emit the equations of a jaxpr at the insertion point and return the values of its outputs."""
        jaxpr = closed_jaxpr.jaxpr
        if len(operands) != len(jaxpr.invars):
            raise ValueError(f"inline: a jaxpr of {len(jaxpr.invars)} arguments was given {len(operands)}")
        env: dict[Any, Value] = dict(zip(jaxpr.invars, operands))
        for var, value in zip(jaxpr.constvars, closed_jaxpr.consts):
            env[var] = _constant(value, var.aval)

        def read(atom: Any) -> Value:
            return _constant(atom.val, atom.aval) if hasattr(atom, "val") else env[atom]

        for eqn in jaxpr.eqns:
            with self._location(eqn):
                results = self._emit(eqn, [read(atom) for atom in eqn.invars])
            env.update(zip(eqn.outvars, results))
        return [read(atom) for atom in jaxpr.outvars]

    def _emit(self, eqn: Any, operands: list[Value]) -> list[Value]:
        name = eqn.primitive.name
        if self.symbols.sources:
            check_symbolic(eqn, _where(eqn))
        avals_in = tuple(atom.aval for atom in eqn.invars)
        avals_out = tuple(var.aval for var in eqn.outvars)
        calls = self._calls
        try:
            results = self.emit(name, operands, avals_in, avals_out, eqn.params, eqn.primitive)
        except (LoweringError, AssertionError) as error:
            if " (at " not in str(error):
                raise type(error)(f"{error}{_where(eqn)}") from error
            raise
        if self._calls > calls:
            self.calling.add(id(eqn))
        return results

    def emit(
        self,
        name: str,
        operands: list[Value],
        avals_in: tuple[Any, ...],
        avals_out: tuple[Any, ...],
        params: dict[str, Any],
        definition: Any = None,
    ) -> list[Value]:
        """Emit a primitive by its rule."""
        lowering = lookup(name, self.target)
        if lowering is None:
            raise LoweringError(f"{name}: no lowering for target {self.target!r}")
        ctx = Context(name, self.target, avals_in, avals_out, self, definition, self.hardware)
        apply: Callable[..., Any] = lambda ctx, *operands: self._apply(lowering, ctx, operands, params)
        operands = bits_alone(ctx, operands)
        produced = in_float32(apply, ctx, operands) if computes_in_float8(ctx) else apply(ctx, *operands)
        results = [produced] if isinstance(produced, ir.Value) else list(produced)
        results = wrapped(ctx, results)
        expected = list(map(aval_type, avals_out))
        if [x.type for x in results] != expected:
            texts = [", ".join(map(str, types)) for types in ([x.type for x in results], expected)]
            raise AssertionError(f"{name}: lowered to ({texts[0]}), not ({texts[1]})")
        return results

    def _apply(self, lowering: Any, ctx: Context, operands: Sequence[Value], params: dict[str, Any]) -> Any:
        try:
            with clear_errors(ctx.primitive, self.symbols):
                return lowering(ctx, *operands, **params)
        except HostCallRefused:
            general = lookup(ctx.primitive, "any")
            if general is None or general is lowering:
                raise
        with clear_errors(ctx.primitive, self.symbols):
            return general(ctx, *operands, **params)

    def _location(self, eqn: Any) -> ir.Location:
        file, line, column, stack = _source(eqn)
        name = f"{stack}/{eqn.primitive.name}" if stack else eqn.primitive.name
        if file is None:
            return ir.Location.name(name, ir.Location.current)
        here = self.primitives.setdefault((file, line), [])
        if eqn.primitive.name not in here:
            here.append(eqn.primitive.name)
        return ir.Location.name(name, ir.Location.file(file, line, column))

    # -- calls of the host ---------------------------------------------------------------------------------------------

    def host_call(
        self, function: Callable[..., Any], operands: Sequence[Value], avals_out: Sequence[Any], pure: bool
    ) -> list[Value]:
        """Call a Python function; calls of one function with one signature share an import."""
        if self.self_contained:
            name = getattr(function, "__name__", type(function).__name__)
            raise HostCallRefused(
                f"the computation calls the Python function {name}, which a saved program cannot contain"
            )
        self._calls += 1
        # integers below a byte cannot be passed
        operands = [_to_type(x, tensor_type(hlo.shape_of(x), entry_dtype(hlo.dtype_of(x).name))) for x in operands]
        input_types = [x.type for x in operands]
        output_types = [_entry_type(aval) for aval in avals_out]
        key = (function, tuple(map(str, input_types)), tuple(map(str, output_types)), pure)
        host = self._host_symbols.get(key)
        if host is None:
            inputs = tuple((hlo.shape_of(x), hlo.dtype_of(x).name) for x in operands)
            host = HostCall(f"cb{len(self.host_calls)}", function, inputs, entry_signature(avals_out), pure)
            self.host_calls.append(host)
            self._host_symbols[key] = host
            if self.target != "xla":
                self._declare(f"host.{host.symbol}", input_types, output_types, pure)
        if self.target == "xla":
            # The runtime puts the number of the loaded program in its place.
            config: dict[str, str | int] = {"program": PLACE_OF_PROGRAM, "index": self.host_calls.index(host)}
            results = hlo.custom_call("veery.host_call", operands, output_types, config, has_side_effect=not pure)
        else:
            results = hlo.call(f"host.{host.symbol}", operands, output_types)
        return [_to_type(x, aval_type(aval)) for x, aval in zip(results, avals_out)]

    def call_routines(self) -> None:
        """Say that the program calls LAPACK's routines."""
        self.calls_routines = True

    def _declare(self, symbol: str, inputs: Sequence[ir.Type], outputs: Sequence[ir.Type], pure: bool) -> None:
        attributes = {
            "sym_name": ir.StringAttr.get(symbol),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(outputs))),
        }
        if pure:
            attributes["nosideeffects"] = ir.UnitAttr.get()
        with ir.InsertionPoint.at_block_begin(self.module.body):
            ir.Operation.create("func.func", attributes=attributes, regions=1)


def _constant(value: Any, aval: Any) -> Value:
    """A literal or captured constant as a tensor of the aval's shape."""
    array = np.asarray(value)
    if not array.itemsize:
        array = np.zeros(array.shape, bool)
    if array.dtype != physical_dtype(aval.dtype):
        array = array.astype(physical_dtype(aval.dtype))
    if array.dtype.name == FLOAT4:
        return hlo.constant(array.view(np.uint8))
    if array.dtype.name in ("int2", "int4", "uint2", "uint4"):
        # Dense constants of sub-byte integers do not compile (`failed to legalize 'memref.get_global'`).
        return hlo.convert(hlo.constant(array.astype(entry_dtype(array.dtype.name))), array.dtype)
    return hlo.constant(array)


def _to_type(x: Value, type_: ir.Type) -> Value:
    if x.type == type_:
        return x
    old, new = hlo.dtype_of(x), numpy_dtype(type_)
    return (hlo.bitcast_convert if {old.name, new.name} & AS_BITS else hlo.convert)(x, new)


def _return(values: Sequence[Value]) -> None:
    ir.Operation.create("func.return", operands=list(values))


def _identifier(name: str) -> str:
    """A readable MLIR symbol: `<lambda>` becomes `lambda`."""
    cleaned = re.sub(r"[^A-Za-z0-9_$]+", "_", name).strip("_")
    return cleaned if cleaned and not cleaned[0].isdigit() else f"f_{cleaned}".rstrip("_")


def _debug_info(jaxpr: Any) -> Any:
    return getattr(jaxpr, "debug_info", None)


def _argument_names(jaxpr: Any, count: int) -> Sequence[str | None]:
    names = getattr(_debug_info(jaxpr), "arg_names", None)
    return names if names is not None and len(names) == count else [None] * count


def _location_of(jaxpr: Any) -> ir.Location:
    """Where the function of a jaxpr is defined, else where it is first called."""
    info = _debug_info(jaxpr)
    file, line = getattr(info, "file", None), getattr(info, "line", None)
    return ir.Location.current if file is None else ir.Location.file(file, line or 0, 0)


def _source(eqn: Any) -> tuple[str | None, int, int, str]:
    info = getattr(eqn, "source_info", None)
    file = getattr(info, "file", None)
    line, column = getattr(info, "line", None) or 0, getattr(info, "column", None) or 0
    return file, line, column, str(getattr(info, "name_stack", None) or "")


def _where(eqn: Any) -> str:
    file, line, _, _ = _source(eqn)
    return "" if file is None else f" (at {file}:{line})"
