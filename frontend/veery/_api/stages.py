"""What `jit` makes on its way, each to be looked at (see `veery.stages`)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veery import _dispatch, _distributed
from veery._api.entries import compile_for, entry
from veery._api.shape_structs import out_struct
from veery._core import source, tree
from veery._core.avals import aval_of
from veery._core.compiler_options import pairs
from veery._core.dimensions import may_fit
from veery._core.jaxpr import ClosedJaxpr
from veery._core.layout import Format, row_by_row
from veery._core.sharding import SingleDeviceSharding
from veery._core.trace import Tracer
from veery._transforms.costs import nbytes, total_costs
from veery._transforms.discharge import contents, store
from veery._transforms.float0 import inputs_without_float0, outputs_with_float0, without_float0
from veery._transforms.parts import in_parts
from veery._transforms.staging import with_consts


@dataclass(frozen=True)
class ArgInfo:
    """An array among the arguments of a function.

    Attributes:
        _aval: its type.
        donated: whether its memory may be used for results.
    """

    _aval: Any
    donated: bool

    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)


class Traced:
    """A function traced for given types of arguments. Made by `jit(f).trace(...)`."""

    def __init__(
        self,
        function: Any,
        traced: Any,
        signature: Any,
        donated: tuple[bool, ...],
        device: Any = None,
        in_shardings: Sequence[Any] = (),
    ):
        self._device = device
        self.in_shardings = in_shardings
        self._function = function
        self._traced = traced
        self._signature = signature
        self._donated = donated

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The jaxpr; arrays that the function closed over are its constants."""
        return with_consts(self._traced.closed, self._traced.consts)

    @property
    def fun_name(self) -> str:
        return self._traced.name

    _in_types = property(lambda self: tuple(self._signature.avals))
    _out_types = property(lambda self: tuple(self._traced.closed.out_avals))

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, in the tree of (args, kwargs)."""
        return tree.tree_unflatten(self.in_tree, self._in_types)

    @property
    def _no_kwargs(self) -> bool:
        """Whether keyword arguments are refused, as with in_shardings."""
        shardings = self._function._options.shardings
        return shardings is not None and shardings.ins is not None

    @property
    def arg_names(self) -> tuple[str, ...]:
        """A name for each flat argument, with the path of a leaf in it."""
        info = self._traced.closed.jaxpr.debug_info
        count = len(self._in_types)
        return tuple(info.arg_names[-count:]) if count else ()

    @property
    def out_avals(self) -> Any:
        """The types of the results, in the output's tree."""
        return tree.tree_unflatten(self.out_tree, self._out_types)

    @property
    def out_tree(self) -> Any:
        """The tree of the output."""
        return self._traced.out_tree

    @property
    def in_tree(self) -> Any:
        """The tree of (args, kwargs)."""
        return self._signature.treedef

    @property
    def out_info(self) -> Any:
        """The output's pytree of ShapeDtypeStructs."""
        avals, out_tree = self._traced.closed.out_avals, self._traced.out_tree
        shardings = self._function._options.shardings
        if shardings is None:
            return out_struct(avals, out_tree)
        return out_struct(
            avals, out_tree, shardings.of_results(out_tree, tree.tree_leaves(out_struct(avals, out_tree)))
        )

    @property
    def args_info(self) -> Any:
        """The pytree of (args, kwargs) with an `ArgInfo` for each array."""
        leaves = map(ArgInfo, self._signature.avals, self._donated)
        return tree.tree_unflatten(self._signature.treedef, list(leaves))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which arrays of the arguments are donated, by their place among the leaves."""
        return tuple(i for i, donated in enumerate(self._donated) if donated)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None, **choices: Any) -> Lowered:
        """Lower to StableHLO, for the device that the arguments are committed to (else the default one) or a platform.

        Args:
            lowering_platforms: one target: "cpu", "cpu:x86-64-v3", "vulkan", "cuda:sm_89"...
            **choices: further options of the lowering, e.g. self_contained=True (call no Python functions).
        """
        device = None if lowering_platforms else self._device or _dispatch.default_device()
        asked = self._function._options.compiler_options
        target = lowering_platforms[0] if lowering_platforms else _dispatch.target_by(asked, device)
        closed = self._traced.program
        donated = (*[False] * (len(closed.in_avals) - len(self._donated)), *self._donated)
        rest = tuple(inputs_without_float0(closed, donated))
        lowered = _dispatch.lower_jaxpr(without_float0(closed), self._traced.name, target, rest, asked, **choices)
        return Lowered(self, lowered, device)

    def __repr__(self) -> str:
        return f"Traced({self.fun_name}, {self._signature.avals})"

    def _repr_html_(self) -> str:
        return self.jaxpr._repr_html_()


class Lowered:
    """A function lowered to StableHLO. Made by `jit(f).lower(...)`."""

    def __init__(self, traced: Traced, lowered: Any, device: Any):
        self._traced = traced
        self._lowered = lowered
        self._device = device

    in_avals = property(lambda self: tree.tree_unflatten(self.in_tree, self._traced._in_types))
    in_tree = property(lambda self: self._traced.in_tree)
    out_tree = property(lambda self: self._traced.out_tree)
    out_info = property(lambda self: self._traced.out_info)
    args_info = property(lambda self: self._traced.args_info)
    _no_kwargs = property(lambda self: self._traced._no_kwargs)  # which libraries read
    donate_argnums = property(lambda self: self._traced.donate_argnums)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as text.

        Args:
            dialect: "stablehlo" (the default); a phase of IREE's compilation: "input", "flow" (shows the dispatches),
                "stream", "hal", "vm"; or the code of the dispatches: "llvm", "asm", "spirv", "ptx".
            debug_info: whether each operation carries the user's file and line; not in the code of dispatches.

        Raises:
            ValueError: no such dialect; "hlo" is XLA's own.
        """
        if dialect in (None, "stablehlo"):
            return self._lowered.as_text(debug_info=debug_info)
        _refuse_hlo(dialect)
        return self._lowered.intermediate(dialect, debug_info=debug_info)

    def as_bytecode(self) -> bytes:
        """The module as MLIR bytecode, for `veery.stablehlo.load` and for IREE's tools.

        It is bound to this version of StableHLO: the bindings do not offer its versioned portable serialisation.
        """
        return self._lowered.as_bytecode()

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The MLIR module.

        Args:
            dialect: "stablehlo", the default.

        Raises:
            ValueError: the module is wanted in XLA's "hlo".
            NotImplementedError: it is wanted in another dialect.
        """
        _refuse_hlo(dialect)
        if dialect not in (None, "stablehlo"):
            raise NotImplementedError(f"the module is there as 'stablehlo', not as {dialect!r}: as_text has more forms")
        return self._lowered.module

    def cost_analysis(self) -> dict[str, Any]:
        """The costs of the operations, as of `Compiled.cost_analysis`, without the queue."""
        return _costs(self._traced, self._lowered.work)

    @source.api_boundary
    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compile to a program.

        Args:
            compiler_options: further options, as of `jit`, e.g. {"optimize_for": "size", "iree-opt-level": "O2"}.

        Raises:
            ValueError: there is no such option, or it does not take that value.
            CompileError: IREE cannot compile the module; the message names the primitive and the user's line.
        """
        asked = (*self._traced._function._options.compiler_options, *pairs(compiler_options))
        lowered = self._lowered.with_options(**_dispatch.lowering_options(asked))
        return Compiled(self._traced, lowered, *_dispatch.compile_lowered(lowered, self._device), self._device)

    def __repr__(self) -> str:
        return f"Lowered({self._traced.fun_name})"

    def _repr_html_(self) -> str:
        style = "line-height:1.3;font-family:monospace;max-height:40em;overflow:auto"
        return f"<pre style='{style}'>{html.escape(self.as_text())}</pre>"

    def __str__(self) -> str:
        return self.as_text()


def _refuse_hlo(dialect: str | None) -> None:
    if dialect == "hlo":
        raise ValueError(
            "HLO is what XLA makes of a module within its plugins, which do not give it as text: the module is "
            "StableHLO, which XLA and its tools read. Ask for as_text() or compiler_ir()."
        )


def _number(work: Any) -> float | str:
    return float(work) if isinstance(work, int) else str(work)


def _costs(traced: Traced, work: Any) -> dict[str, Any]:
    costs = {**total_costs(traced.jaxpr.jaxpr), "work": work}
    return {name: _number(cost) for name, cost in costs.items()}


@dataclass(frozen=True)
class CompiledMemoryStats:
    """Sizes in bytes of what a compiled program needs, under JAX's names.

    `temp_size_in_bytes` is the memory that IREE plans for values that are neither arguments nor results (0 where it
    depends on the arguments); `alias_size_in_bytes` that of donated arguments in whose place results are written.
    """

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0


class Compiled:
    """A compiled function for one type of arguments. Made by `jit(f).lower(...).compile()`."""

    def __init__(self, traced: Any, lowered: Any, program: Any, executable: Any, device: Any):
        self._traced = traced
        self._lowered = lowered
        self._program = program
        self._executable = executable
        self._device = device

    in_avals = property(lambda self: tree.tree_unflatten(self.in_tree, self._traced._in_types))
    in_tree = property(lambda self: self._traced.in_tree)
    out_tree = property(lambda self: self._traced.out_tree)
    out_info = property(lambda self: self._traced.out_info)
    args_info = property(lambda self: self._traced.args_info)
    _no_kwargs = property(lambda self: self._traced._no_kwargs)  # which libraries read
    donate_argnums = property(lambda self: self._traced.donate_argnums)

    def cost_analysis(self) -> dict[str, Any]:
        """What a call costs, and where it runs.

        Returns:
            A dictionary of "flops", "transcendentals" (exp, sin, sqrt...) and "bytes accessed" (operands and results,
            before fusion); of "work", by which small programs are told from large ones; and, of a program on a device,
            "queue": "inline" (small programs run in the caller's thread), "threaded" (larger ones on worker threads) or
            "deferred" (submitted by a thread, for submission may wait for values); with symbolic shapes "by shape", and
            texts for numbers. `jit(f, compiler_options={"queue": "threaded"})` chooses.

        >>> import veery, veery.numpy as jnp
        >>> compile = lambda n: veery.jit(lambda x: x + 1).lower(jnp.zeros(n)).compile()
        >>> compile(8).cost_analysis()
        {'flops': 8.0, 'transcendentals': 0.0, 'bytes accessed': 68.0, 'work': 76.0, 'queue': 'inline'}
        >>> compile(10**6).cost_analysis()["queue"]
        'threaded'
        """
        queue = {} if self._executable is None else {"queue": self._executable.queue}
        return {**_costs(self._traced, self._program.work), **queue}

    def memory_analysis(self) -> CompiledMemoryStats:
        """Sizes in bytes of the arguments, the results, the temporary values and the program itself.

        >>> import veery, veery.numpy as jnp
        >>> twice = veery.jit(lambda x: veery.numpy.tanh(x @ x) @ x).lower(jnp.ones((64, 64))).compile()
        >>> twice.memory_analysis().temp_size_in_bytes
        16384
        """
        closed = without_float0(self._traced._traced.program)
        overwritten = self._program.metadata.get("overwritten", "").split()
        if self._executable is not None and self._program.backend == "xla":
            return CompiledMemoryStats(**self._executable.memory_analysis())
        return CompiledMemoryStats(
            generated_code_size_in_bytes=len(self._program.vmfb),
            argument_size_in_bytes=nbytes(closed.in_avals),
            output_size_in_bytes=nbytes(closed.out_avals),
            alias_size_in_bytes=nbytes(closed.in_avals[int(i)] for i in overwritten),
            temp_size_in_bytes=self._lowered.temporary_bytes(),
        )

    def runtime_executable(self) -> Any:
        """The loaded program, which takes and returns buffers; None where it is not loaded.

        That of a PJRT plugin has a method `serialize`.
        """
        return self._executable

    def as_text(self) -> str | None:
        """The StableHLO that the program was compiled from."""
        return self._traced.lower(lowering_platforms=[self._program.target]).as_text()

    @source.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on the arguments that are not static: the values of those are part of it.

        Raises:
            TypeError: the arguments differ in structure or type from those that it was compiled for.
            ValueError: they are committed to another device.
        """
        leaves = self._checked(args, kwargs)
        traced = self._traced._traced
        closed = traced.program
        inputs = [*traced.consts, *leaves]
        arrays = [_dispatch.as_array(x) for x in inputs_without_float0(closed, contents(inputs))]
        if self._is_distributed(arrays):
            outs = self._traced._function.run_traced(traced, args, kwargs, leaves)
            return tree.tree_unflatten(traced.out_tree, outs)
        rest = without_float0(closed)
        outs = self._run(arrays, rest.out_avals)
        _dispatch.check_special(outs, f"jit({traced.name})", rest, arrays)
        kept = store(inputs, traced.discharged.written, outputs_with_float0(closed, outs))
        return tree.tree_unflatten(traced.out_tree, kept)

    def _run(self, arrays: Sequence[Any], out_avals: Sequence[Any]) -> list[Any]:
        """The results of the program on arrays, the constants among them."""
        name = self._traced.fun_name
        committed = _dispatch.committed_device(arrays, name)
        if self._device is None:  # compiled for a platform
            self._device = committed or _dispatch.first_device(self._program.backend)
            self._executable = _dispatch.load(self._program, self._device)
        if committed not in (None, self._device):
            raise ValueError(
                f"Computation was compiled for input shardings that disagree with the shardings of arguments passed to "
                f"it: {name} was compiled for {self._device}, the arguments are on {committed}."
            )
        _dispatch.check_execution(name)
        buffers = _dispatch.call(self._executable, _dispatch.on_device(arrays, self._device), name)
        return _distributed.in_their_memories(_dispatch.results(out_avals, buffers, committed is not None))

    def _is_distributed(self, arrays: Sequence[Any]) -> bool:
        """Whether a call with these arrays concerns several devices, or shardings of theirs."""
        options, closed = self._traced._function._options, self._traced._traced.program
        if options.shardings is not None or in_parts(without_float0(closed)) is not None:
            return True
        return any(x._buffer.device is None for x in arrays)

    def _places(self) -> list[Any]:
        """The sharding of each argument, as far as it was known when it was compiled."""
        here = None if self._device is None else SingleDeviceSharding(self._device)
        known = self._traced.in_shardings
        return [sharding or here for sharding in known]

    @property
    def input_shardings(self) -> Any:
        """Where the arguments are: a pytree of (args, kwargs)."""
        return tree.tree_unflatten(self.in_tree, self._places())

    @property
    def output_shardings(self) -> Any:
        """Where the results are: a pytree like the output."""
        out_avals = self._traced._out_types
        shardings = self._traced._function._options.shardings
        wanted: list[Any] = [None] * len(out_avals)
        if shardings is not None:
            structs = out_struct(out_avals, self.out_tree)
            wanted = shardings.of_results(self.out_tree, tree.tree_leaves(structs))
        found = _distributed.layouts(out_avals, list(zip(self._traced._in_types, self._places())))
        return tree.tree_unflatten(self.out_tree, [w or f for w, f in zip(wanted, found)])

    @property
    def input_formats(self) -> Any:
        """The layouts and shardings of the arguments: a pytree of (args, kwargs)."""
        formats = [Format(row_by_row(a.ndim), s) for a, s in zip(self._traced._in_types, self._places())]
        return tree.tree_unflatten(self.in_tree, formats)

    @property
    def output_formats(self) -> Any:
        """The layouts and shardings of the results: a pytree like the output."""
        shardings = tree.tree_leaves(self.output_shardings)
        formats = [Format(row_by_row(a.ndim), s) for a, s in zip(self._traced._out_types, shardings)]
        return tree.tree_unflatten(self.out_tree, formats)

    def _checked(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        leaves, treedef = tree.tree_flatten((args, kwargs))
        if treedef != self.in_tree:
            raise TypeError(
                f"Function compiled with input pytree does not match the input pytree it was called with. "
                f"{self._traced.fun_name} was compiled for {self.in_tree} and called with {treedef}. Static "
                "arguments are not passed again."
            )
        traced = next((x for x in leaves if isinstance(x, Tracer)), None)
        if traced is not None:
            raise TypeError(
                "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. "
                f"Detected argument of Tracer type {type(traced)}."
            )
        names = self._traced.arg_names
        wrong = [
            (name, want, given)
            for name, given, want in zip(names, map(aval_of, leaves), self._traced._in_types)
            if not may_fit(given.shape, want.shape) or given.dtype != want.dtype
        ]
        if wrong:
            listed = [
                f"Argument {name!r} compiled with {want.str_short(False)} and called with {given.str_short(False)}"
                for name, want, given in wrong
            ]
            raise TypeError(
                "Argument types differ from the types for which this computation was compiled. Perhaps you are calling "
                "the compiled executable with a different enable_x64 mode than when it was AOT compiled? The mismatches"
                f" of {self._traced.fun_name} are:\n" + "\n".join(listed)
            )
        return leaves

    def save(self, path: str | Path, *, weights: str | Path | None = None) -> None:
        """Write the program, its signature and its constants to a file that `veery_runtime.load` runs by itself.

        A program that would call Python functions is compiled again without them.

        Args:
            path: file name, by custom ending in `.vmfb`.
            weights: a `.safetensors` or `.irpa` file beside it, into which large constants go.

        Raises:
            OSError: the file cannot be written.
            LoweringError: the program cannot do without Python functions of this process (callbacks).
            ValueError: an argument or result is held in containers other than dicts, lists, tuples and named tuples, or
                the program is XLA's.

        >>> import veery, veery.numpy as jnp, veery_runtime, numpy as np
        >>> veery.jit(lambda x: {"y": 2 * x}).lower(jnp.ones(3)).compile().save("f.vmfb")
        >>> veery_runtime.load("f.vmfb")(np.ones(3, np.float32))
        {'y': array([2., 2., 2.], dtype=float32)}
        """
        programs = [self._program]
        if self._program.is_of_this_process or self._executable is None:
            programs = [compile_for(self._traced, self._program.target)]
        _dispatch.save_artifact(path, [entry(self._traced, programs)], weights_path=weights)

    def __repr__(self) -> str:
        return f"Compiled({self._traced.fun_name}, {len(self._program.vmfb)} bytes for {self._program.target})"

    def _repr_html_(self) -> str:
        title = f"{self._traced.fun_name} for {self._program.target}"
        rows = {
            "arguments": ", ".join(aval.str_short() for aval in self._traced._in_types),
            "results": ", ".join(aval.str_short() for aval in self._traced._out_types),
            "code, bytes": f"{len(self._program.vmfb):,}",
            **{name: f"{cost:,}" for name, cost in total_costs(self._traced.jaxpr.jaxpr).items()},
            "queue": self.cost_analysis().get("queue", "not loaded"),
        }
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"
