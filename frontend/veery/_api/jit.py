"""`jit`: trace a function once for each type of its arguments, compile it, and call the compiled program."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from veery import _dispatch
from veery._api import platforms, stages
from veery._api.arguments import argument_names, check_traceable, function_name, positions_and_names, signature, wraps
from veery._api.cache_misses import explain_miss
from veery._api.fast_calls import MISMATCH, MISS, STATIC, FastCall, Kind, Program, fast_call
from veery._api.literals import Parameterized, parameterized
from veery._api.placed import JitShardings, check_leaves
from veery._api.shape_structs import as_struct
from veery._core import monitoring, recording, source, tree, tree_registry
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.compiler_options import Pairs, compiler as asked_compiler, pairs
from veery._core.config import config
from veery._core.dimensions import SymbolicScope, is_symbolic, parse_shape, scope_of
from veery._core.effects import ref_effect
from veery._core.hitypes import with_qdd
from veery._core.jaxpr import ClosedJaxpr, DebugInfo, eval_jaxpr
from veery._core.refs import AbstractRef, check_aliases
from veery._core.trace import Tracer, axis_env, current_trace, eval_trace, leaked_tracer_error
from veery._core.tree import flatten_spec
from veery._transforms.calls import jit_p
from veery._transforms.discharge import Discharged, contents, discharge, store
from veery._transforms.float0 import holds_float0
from veery._transforms.staging import close_over, forbid_tracing, stage


class Signature(NamedTuple):
    """What a trace depends on: everything about a call but the values of its arrays."""

    treedef: Any
    avals: tuple[Any, ...]
    static: tuple[Any, ...]
    trace_key: tuple[Any, ...]
    axes: tuple[Any, ...]


@dataclass(eq=False)
class Traced:
    """A traced function: its jaxpr, in which closed-over arrays are leading arguments, and its output tree."""

    closed: ClosedJaxpr
    consts: list[Any]
    out_tree: Any
    name: str

    @functools.cached_property
    def takes_refs(self) -> bool:
        """Whether there are references among the arguments, or what the function closes over."""
        return any(type(aval) is AbstractRef for aval in self.closed.in_avals)

    @functools.cached_property
    def discharged(self) -> Discharged:
        """The jaxpr as it is compiled: with values in place of references."""
        has_refs = self.takes_refs or ref_effect in self.closed.effects
        return discharge(self.closed, evaluates=True) if has_refs else Discharged(self.closed, ())

    @property
    def program(self) -> ClosedJaxpr:
        """What is compiled."""
        return self.discharged.jaxpr

    @functools.cached_property
    def called(self) -> Parameterized:
        """What is compiled where it is called: numbers in it are leading arguments, arrays on the default device."""
        return parameterized(self.program)


@dataclass(eq=False)
class Entry:
    """What the fast path needs of a call seen before."""

    executable: Any
    call: Any
    device: Any
    is_default: bool  # whether arrays that nobody placed go to this device
    committed: bool  # whether jit was told the device
    consts: list[Any]
    out_tree: Any
    out_avals: tuple[Any, ...]
    is_quick: bool = False  # whether a fast call was made for it, or cannot be

    @property
    def single(self) -> bool:
        """Whether the function gives an array, and not a structure."""
        return bool(self.out_tree == _LEAF)


class DynamicShapes(NamedTuple):
    """The shapes of arguments of which one program serves many: (argument's name, text or symbolic shape)..."""

    specs: tuple[tuple[str, Any], ...]
    scope: SymbolicScope

    def abstracted(self, name: str, aval: ShapedArray) -> ShapedArray:
        """The type that arrays in an argument are traced as."""
        spec = dict(self.specs).get(name)
        if spec is None:
            return aval
        shape = parse_shape(spec, self.scope, aval.shape) if isinstance(spec, str) else spec
        if len(shape) != aval.ndim:
            raise ValueError(f"jit: an array of {name} has the shape {aval.shape}, dynamic_shapes says {shape}")
        return aval.update(shape=shape)


@dataclass(frozen=True)
class JitOptions:
    """The arguments of `jit` beside the function."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: frozenset[str] = frozenset()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: frozenset[str] = frozenset()
    device: Any = None
    inline: bool = False
    compiler_options: Pairs = ()
    dynamic: DynamicShapes | None = None
    shardings: JitShardings | None = None

    def counted(self, count: int) -> JitOptions:
        """The options for calls with so many positional arguments, from whose end negative positions count."""
        nums = [tuple(n + count if n < 0 else n for n in nums) for nums in (self.static_argnums, self.donate_argnums)]
        return replace(self, static_argnums=tuple(sorted({*nums[0]})), donate_argnums=nums[1])


# Traces are kept by function, so that `jit(f)` in a loop traces f once.
_traces: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def traces_of(fun: Any, options: Any) -> dict[Any, Any]:
    """The traces of a function under given options; its own dictionary for callables that cannot be remembered."""
    try:
        return _traces.setdefault(fun, {}).setdefault(options, {})
    except TypeError:
        return {}


class JitFunction:
    """A function that is compiled on first use for each type of its arguments (see `jit`)."""

    def __init__(self, fun: Callable[..., Any], options: JitOptions, asked_here: bool = True):
        wraps(fun)(self)
        self._fun = fun
        self._name = function_name(fun)
        self._options = options
        self._dynamic_only = not (options.static_argnums or options.static_argnames)
        self._counts_back = min((0, *options.static_argnums, *options.donate_argnums)) < 0
        # a function of the library, which is called eagerly, and not one whose compilation the user asks for
        self._is_ours = asked_here and str(getattr(fun, "__module__", "")).startswith("veery.")
        self._donates = bool(options.donate_argnums or options.donate_argnames)
        self._traces: dict[Signature, Traced] = traces_of(fun, options)
        self._entries: dict[Any, Entry] = {}
        self._fast: list[FastCall] = []

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._fun)

    def _options_for(self, args: tuple) -> JitOptions:
        return self._options.counted(len(args)) if self._counts_back else self._options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            for fast in self._fast:
                outs = fast(args, kwargs)
                if outs is not MISS:
                    return outs
            return self._known(args, kwargs)
        except Exception as error:  # an `api_boundary` without another call
            source.filter_traceback(error)
            raise

    def _known(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call by what is known of calls like it."""
        if current_trace() is not eval_trace:
            return self._call(args, kwargs)
        entry: Entry | None
        try:
            entry, leaves = self._find(args, kwargs)
            buffers = entry.consts + [x._buffer for x in leaves]
        except MISMATCH:
            entry = None
        if entry is None:  # here, since an error of the function must not seem to stem from the lookup's
            return self._call(args, kwargs)
        if any(buffer._spec.device is not entry.device for buffer in buffers):
            return self._call(args, kwargs)
        committed = entry.committed or any(x._committed for x in leaves)
        if not (committed or entry.is_default):  # arrays that nobody put there go to the default device
            return self._call(args, kwargs)
        outs = [ArrayImpl(aval, buf, committed) for aval, buf in zip(entry.out_avals, entry.call(buffers))]
        return tree.tree_unflatten(entry.out_tree, outs)

    def _find(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Entry, Sequence[Any]]:
        """What is known of calls like this one, and the leaves of the arguments as arrays.

        Raises:
            KeyError, or another of MISMATCH: nothing is known.
        """
        dynamic, dynamic_kwargs, static = self._split(args, kwargs)
        leaves, spec = flatten_spec((dynamic, dynamic_kwargs))
        entry, arrays = self._entry(spec, static, leaves)
        if not entry.is_quick and len(self._fast) < _MOST_FAST:
            entry.is_quick = True
            fast = self._fast_call(spec, args, kwargs, entry, leaves)
            if fast is not None:
                self._fast.append(fast)
        return entry, arrays

    def _entry(self, structure: Any, static: tuple, leaves: list[Any]) -> tuple[Entry, Sequence[Any]]:
        try:
            return self._entries[_key(structure, static, leaves, [x.aval for x in leaves])], leaves
        except AttributeError:  # NumPy arrays and Python scalars, or a tree in the place of a leaf
            avals = [aval_of(x) for x in leaves]
            entry = self._entries[_key(structure, static, leaves, avals)]
            device = None if entry.is_default else entry.device
            return entry, [_dispatch.as_array(x, device, aval) for x, aval in zip(leaves, avals)]

    def entry_of(self, avals: Sequence[ShapedArray]) -> Entry | None:
        """The entry of calls with arrays of these types, alone and on the default device, if there was one."""
        return self._entries.get((config._trace_key, _dispatch.default_device(), *avals))

    def _fast_call(
        self, spec: Any, args: tuple, kwargs: dict[str, Any], entry: Entry, leaves: list[Any]
    ) -> FastCall | None:
        static_nums, static_names = self._options_for(args).static_argnums, self._options.static_argnames
        positional, named = tree.PyTreeDef(spec).children()
        structures = iter(positional.children())
        by_position = [STATIC if i in static_nums else next(structures) for i in range(len(args))]
        by_name: dict[str, Any] = dict(zip(sorted(kwargs.keys() - static_names), named.children()))
        by_name |= dict.fromkeys(sorted(static_names.intersection(kwargs)), STATIC)
        kind = Kind(
            by_position,
            by_name,
            tuple([part for i, x in enumerate(args) if i in static_nums for part in (type(x), x)])
            + tuple([part for k in by_name if k in static_names for part in (type(kwargs[k]), kwargs[k])]),
            [aval_of(x) for x in leaves],
            [type(x) is ArrayImpl for x in leaves],
            config._trace_key,
            entry.device,
            None if entry.is_default else entry.device,
            not (entry.committed or entry.is_default),
        )
        return fast_call(kind, Program(entry.call, entry.consts, entry.committed, entry.out_tree, entry.out_avals))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By its name where it is what its name stands for, as functions are; else by its function and options."""
        name = getattr(self, "__qualname__", "")
        try:
            named = operator.attrgetter(name)(sys.modules[self.__module__])
        except (AttributeError, KeyError):
            named = None
        return name if named is self else (type(self), (self._fun, self._options))

    def __repr__(self) -> str:
        try:
            return f"<PjitFunction of {self._fun!r}>"
        except Exception:  # of the function's own
            return "<PjitFunction>"

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if config.jax_disable_jit:
            return self._fun(*args, **kwargs)
        leaves, sig, donated = self._signature(args, kwargs)
        if self._options.dynamic is not None and current_trace() is eval_trace and not self._is_for_xla(leaves):
            sig = self._abstracted(sig, args, kwargs)
        shardings = self._options.shardings
        if shardings is not None:
            leaves = shardings.placed_arguments(*self._split(args, kwargs)[:2], leaves, self._name)
        traced = self._trace(sig, args, kwargs)
        inputs = [*traced.consts, *leaves]
        if traced.takes_refs:
            check_aliases(traced.name, "jit", leaves, traced.consts, lambda: traced.closed.debug_info.arg_names)
        if traced.closed.jaxpr.is_high:
            outs = jit_p.bind(*inputs, name=traced.name, jaxpr=traced.closed)
        elif current_trace() is eval_trace:
            outs = self._execute(traced, sig, leaves, usable_donations(traced, donated))
        elif self._options.inline:
            outs = eval_jaxpr(traced.closed.jaxpr, (), *inputs)
        else:
            outs = jit_p.bind(*inputs, name=traced.name, jaxpr=traced.closed)
        if shardings is not None:
            outs = shardings.placed_results(traced.out_tree, list(outs), self._name)
        return tree.tree_unflatten(traced.out_tree, outs)

    def run_traced(self, traced: Traced, args: tuple, kwargs: dict[str, Any], leaves: list[Any]) -> list[Any]:
        """The results for arguments that are not static, where the options want them; nothing is kept of the call."""
        shardings = self._options.shardings
        if shardings is not None:
            leaves = shardings.placed_arguments(args, kwargs, leaves, self._name)
        how = _dispatch.How(self._options.device, (), self._options.compiler_options)
        inputs = [*traced.consts, *leaves]
        found = _dispatch.execute(traced.program, traced.name, contents(inputs), how)
        outs = store(inputs, traced.discharged.written, found)
        return outs if shardings is None else shardings.placed_results(traced.out_tree, outs, self._name)

    def _is_for_xla(self, leaves: Sequence[Any]) -> bool:
        """Whether XLA compiles calls with these arguments: for one shape at a time."""
        device = self._options.device or _dispatch.device_of([x for x in leaves if type(x) is ArrayImpl], self._name)
        options = {**dict(config.veery_compiler_options), **dict(self._options.compiler_options)}
        return asked_compiler(options) == "xla" or _dispatch.target_of(device).startswith("xla:")

    def _execute(self, traced: Traced, sig: Signature, leaves: Sequence[Any], donations: tuple[bool, ...]) -> list[Any]:
        inputs = [*traced.consts, *leaves]
        if traced.takes_refs:
            return self._execute_with_refs(traced, inputs)
        donated = donations if any(donations) else ()
        how = _dispatch.How(self._options.device, donated, self._options.compiler_options)
        if holds_float0(traced.program):
            return _dispatch.execute(traced.program, traced.name, inputs, how)
        program, numbers = traced.called
        if donated:
            how = replace(how, donated=(False,) * len(numbers) + donated)
        own = zip((*numbers, *traced.consts), program.in_avals)
        arrays = [_concrete(x, traced.name, aval, own=True) for x, aval in own]
        arrays += [_concrete(x, traced.name) for x in leaves]
        options = {**dict(config.veery_compiler_options), **dict(how.compiler_options)}
        if options.get("autotune"):
            how = replace(how, compiler_options=self._tuned(program, traced.name, tuple(options.items()), arrays))
        run = _dispatch.run(program, traced.name, arrays, how)
        self._remember(sig, leaves, traced, run)
        return run.outs

    def _execute_with_refs(self, traced: Traced, inputs: Sequence[Any]) -> list[Any]:
        """Run on what references hold, and write back."""
        jaxpr, written = traced.discharged
        how = _dispatch.How(self._options.device, (), self._options.compiler_options)
        arrays = [_concrete(x, traced.name) for x in contents(inputs)]
        return store(inputs, written, _dispatch.execute(jaxpr, traced.name, arrays, how))

    def _tuned(self, program: ClosedJaxpr, name: str, options: Pairs, arrays: Sequence[ArrayImpl]) -> Pairs:
        """The fastest compiler options, which are measured at the first call."""
        from veery._api.autotune import tuned  # which starts threads' modules: few programs are tuned

        device = self._options.device or _dispatch.device_of(arrays, name)
        known = program.derived.tuned
        if (device, options) not in known:
            buffers = _dispatch.on_device(arrays, device)
            known[device, options] = tuned(program, name, device, options, buffers)
        return known[device, options]

    def _remember(self, sig: Signature, leaves: Sequence[Any], traced: Traced, run: _dispatch.Run) -> None:
        """Open the fast path for calls like this one, whose arrays are all on the device that computes."""
        checks = config.jax_debug_nans or config.jax_debug_infs or config.jax_debug_key_reuse
        checks = checks or config.veery_verify == "always"
        if checks or run.executable is None or self._options.shardings is not None:
            return
        if any(type(x) is ArrayImpl and x._buffer.device is not run.device for x in leaves):
            return
        if any(x._buffer.device is None for x in (*run.arrays, *run.outs)):
            return
        executable = run.executable
        if self._options.dynamic is not None:
            if len(self._entries) >= _MOST_DYNAMIC_ENTRIES:
                self._entries.clear()
                self._fast.clear()
            executable = executable.at([x.shape for x in run.arrays])
        raising = _dispatch.calls_python(traced.called.jaxpr)
        waits = _dispatch.waits(self._options.compiler_options)
        entry = Entry(
            executable,
            functools.partial(_dispatch.call_raising, executable, waits) if raising else executable.call,
            run.device,
            run.device is _dispatch.default_device(),
            self._options.device is not None,
            _dispatch.on_device(run.arrays[: len(run.arrays) - len(leaves)], run.device),
            traced.out_tree,
            tuple(x.aval for x in run.outs),
        )
        avals = [aval_of(x) for x in leaves]
        spec = sig.treedef.spec
        self._entries[_key(spec, sig.static, leaves, avals)] = entry
        if leaves and self._dynamic_only and flatten_spec((tuple(leaves), {}))[1] == spec:
            self._entries[(sig.trace_key, _device(leaves), *avals)] = entry

    # Tracing.

    def _split(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict, tuple]:
        """Dynamic positional and keyword arguments, and the static ones as a hashable value."""
        if self._dynamic_only:
            return args, kwargs, ()
        nums, names = self._options_for(args).static_argnums, self._options.static_argnames
        dynamic = tuple([x for i, x in enumerate(args) if i not in nums]) if nums else args
        # the types too: True == 1 == 1.0 must not share a trace
        static: list[tuple] = [(i, type(args[i]), args[i]) for i in nums if i < len(args)]
        if not kwargs:
            return dynamic, kwargs, tuple(static)
        static += [(name, type(kwargs[name]), kwargs[name]) for name in sorted(names.intersection(kwargs))]
        return dynamic, {k: v for k, v in kwargs.items() if k not in names}, tuple(static)

    def _signature(
        self, args: tuple, kwargs: dict[str, Any], *, types: bool = False
    ) -> tuple[list[Any], Signature, tuple[bool, ...]]:
        """Leaves, signature and donations of a call; where nothing is computed, `types` stand for values of theirs."""
        dynamic, dynamic_kwargs, static = self._split(args, kwargs)
        for where, _, value in static:
            _check_hashable(value, where, self._name)
        leaves, treedef = tree.tree_flatten((dynamic, dynamic_kwargs))
        avals = tuple(map(maybe_aval_of, leaves))
        if types and None in avals:
            leaves = [as_struct(x) if aval is None else x for x, aval in zip(leaves, avals)]
            avals = tuple(map(maybe_aval_of, leaves))
        if None in avals:
            self._bad_argument(dynamic, dynamic_kwargs, leaves[avals.index(None)])
        if {*map(type, avals)} != {ShapedArray}:
            avals = tuple([with_qdd(aval, x) for aval, x in zip(avals, leaves)])
            names = lambda: debug_info(self._fun, args, kwargs, self._options).arg_names
            check_aliases(self._name, "jit", leaves, arg_names=names)
        sig = Signature(treedef, avals, static, config.trace_key(), axis_env())
        return leaves, sig, self._donated(args, kwargs, len(leaves))

    def _abstracted(self, sig: Signature, args: tuple, kwargs: dict[str, Any]) -> Signature:
        """The signature with the symbolic shapes of `dynamic_shapes`."""
        dynamic = self._options.dynamic
        if dynamic is None:
            return sig
        names = _leaf_arguments(self._fun, args, kwargs, self._options)
        return sig._replace(avals=tuple(map(dynamic.abstracted, names, sig.avals)))

    def _donated(self, args: tuple, kwargs: dict[str, Any], count: int) -> tuple[bool, ...]:
        if not self._donates:
            return (False,) * count
        options = self._options_for(args)
        flags: list[bool] = []
        for i, x in enumerate(args):
            if i not in options.static_argnums:
                flags += [i in options.donate_argnums] * len(tree.tree_leaves(x))
        dynamic = {k: v for k, v in kwargs.items() if k not in options.static_argnames}
        for name in sorted(dynamic):
            flags += [name in options.donate_argnames] * len(tree.tree_leaves(dynamic[name]))
        return tuple(flags)

    def _bad_argument(self, args: tuple, kwargs: dict[str, Any], value: Any) -> None:
        names = argument_names(self._fun, args, kwargs)
        path = next(
            name + tree_registry.keystr(path)
            for name, x in zip(names, [*args, *kwargs.values()])
            for path, leaf in tree.tree_flatten_with_path(x)[0]
            if leaf is value
        )
        raise TypeError(
            f"Error interpreting argument to {self._fun} as an abstract array. The problematic value is of type "
            f"{type(value)} and was passed to the function at path {path}.\nThis typically means that a jit-wrapped "
            "function was called with a non-array argument, and this argument was not marked as static using the "
            "static_argnums or static_argnames parameters of jax.jit."
        )

    def _trace(self, sig: Signature, args: tuple, kwargs: dict[str, Any]) -> Traced:
        try:
            traced = self._traces.get(sig)
        except Exception as error:
            raise ValueError(
                "static arguments should be comparable using __eq__. Comparing those of a call of "
                f"{self._name} with those of an earlier one failed; they are of {[kind for _, kind, _ in sig.static]}."
            ) from error
        if traced is None:
            forbid_tracing(self._fun)
            if config.jax_explain_cache_misses:
                explain_miss(self._fun, args, kwargs, sig, list(self._traces))
            start = time.perf_counter()
            with monitoring.timed(monitoring.TRACING, fun_name=self._name):
                traced = self._traces[sig] = self._trace_now(sig, args, kwargs)
            seconds = time.perf_counter() - start
            _dispatch.log_compilation("Finished tracing + transforming %s for jit in %.9f sec", self._name, seconds)
        return traced

    def _trace_now(self, sig: Signature, args: tuple, kwargs: dict[str, Any]) -> Traced:
        options = self._options_for(args)
        static_args = {i: args[i] for i in options.static_argnums if i < len(args)}
        static_kwargs = {k: v for k, v in kwargs.items() if k in options.static_argnames}
        out_tree: Any = None

        def flat(*leaves: Any) -> Sequence[Any]:
            nonlocal out_tree
            dynamic, dynamic_kwargs = tree.tree_unflatten(sig.treedef, leaves)
            out = self._fun(*_merge(dynamic, static_args), **dynamic_kwargs, **static_kwargs)
            flat_out, out_tree = tree.tree_flatten(out)
            check_outputs(flat_out, out, self._fun)
            return flat_out

        info = debug_info(self._fun, args, kwargs, options)
        closed = stage(flat, sig.avals, replace(info, compiled=not self._is_ours))
        closed, consts = close_over(closed)
        return Traced(closed, consts, out_tree, self._name)

    # Ahead of time.

    @source.api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """The function traced for arguments like these (arrays or their types), as a veery.stages.Traced."""
        leaves, sig, donated = self._signature(args, kwargs, types=True)
        sig = self._abstracted(sig, args, kwargs)
        traced = self._trace(sig, args, kwargs)
        device = self._options.device or _dispatch.committed_device([*traced.consts, *leaves], self._name)
        shardings = self._options.shardings
        places = [getattr(x, "sharding", None) if getattr(x, "committed", True) else None for x in leaves]
        if shardings is not None:
            wanted = shardings.of_arguments(*self._split(args, kwargs)[:2], leaves)
            places = [w or p for w, p in zip(wanted, places)]
        return stages.Traced(self, traced, sig, usable_donations(traced, donated), device, places)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The function lowered to StableHLO for arguments like these, as a veery.stages.Lowered."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the outputs."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget what was traced and compiled for this function."""
        self._traces.clear()
        self._entries.clear()
        self._fast.clear()

    def _cache_size(self) -> int:
        return len(self._traces)


def usable_donations(traced: Traced, donated: tuple[bool, ...]) -> tuple[bool, ...]:
    """For each argument of the jaxpr, whether it is donated and there is a result that it may become."""
    if not any(donated):
        return (False,) * len(traced.closed.in_avals)
    known = traced.closed.derived.donations
    found = known.get(donated)
    if found is None:
        results = Counter((aval.shape, aval.dtype) for aval in traced.closed.out_avals)
        flags, unused = [False] * len(traced.consts), []
        for aval, given in zip(traced.closed.in_avals[len(traced.consts) :], donated):
            key = (aval.shape, aval.dtype)
            flags.append(given and results[key] > 0)
            results[key] -= flags[-1]
            if given and not flags[-1]:
                unused.append(f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]")
        if unused:
            text = f"Some donated buffers were not usable: {', '.join(unused)}."
            why = f"{traced.name} has no results like them."
            warnings.warn(f"{text}\n{why}", stacklevel=source.user_stacklevel())
        found = known[donated] = tuple(flags)
    return found


# By this name of its type libraries (chex) know that a function is jitted.
JitFunction.__name__ = JitFunction.__qualname__ = "PjitFunction"
PjitFunction = JitFunction

_unrecorded_call = JitFunction.__call__


@source.api_boundary
def _recorded_call(self: JitFunction, *args: Any, **kwargs: Any) -> Any:
    """`JitFunction.__call__` while a trace is being made."""
    if current_trace() is not eval_trace:
        return self._call(args, kwargs)
    with recording.Span(f"jit({self._name})", "call"):
        return self._call(args, kwargs)


def record_calls(recorded: bool) -> None:
    """Let calls of jitted functions be recorded. Only then do they pay for it."""
    JitFunction.__call__ = _recorded_call if recorded else _unrecorded_call  # type: ignore[method-assign]


def _device(leaves: Sequence[Any]) -> Any:
    """The device of the first array among the leaves."""
    return next((x._buffer._spec.device for x in leaves if type(x) is ArrayImpl), None)


def _key(structure: Any, static: tuple, leaves: Sequence[Any], avals: Sequence[Any]) -> tuple:
    return (structure, config._trace_key, _device(leaves), static, *avals)


_LEAF = tree.tree_flatten(0)[1]
# Calls of so many kinds have code of their own.
_MOST_FAST = 4
# Of one program for many shapes, so many have a fast path.
_MOST_DYNAMIC_ENTRIES = 1024


def _merge(dynamic: Sequence[Any], static: dict[int, Any]) -> list[Any]:
    """Positional arguments in order: static ones at their positions, dynamic ones between."""
    rest = iter(dynamic)
    total = len(dynamic) + len(static)
    return [static[i] if i in static else next(rest) for i in range(total)]


def _concrete(x: Any, name: str, aval: Any = None, *, own: bool = False) -> ArrayImpl:
    if isinstance(x, Tracer):
        raise leaked_tracer_error(x, f"the function {name}")
    return _dispatch.as_array(x, aval=aval, own=own)


def _check_hashable(value: Any, where: Any, name: str) -> None:
    try:
        hash(value)
    except TypeError:
        if isinstance(value, Tracer):
            raise TypeError(f"static argument {where} of {name} is a traced value; it must be concrete") from None
        raise ValueError(
            f"Non-hashable static arguments are not supported. An error occurred while trying to hash an object of "
            f"type {type(value)}, {value} (static argument {where!r} of {name}). Use a hashable value, such as a tuple."
        ) from None


def check_outputs(leaves: Sequence[Any], out: Any, fun: Any) -> None:
    """Raise TypeError for an output that is not an array."""
    for leaf in leaves:
        if maybe_aval_of(leaf) is None:
            path = next(tree_registry.keystr(path) for path, x in tree.tree_flatten_with_path(out)[0] if x is leaf)
            raise TypeError(
                f"function {function_name(fun)} at {source.of_function(fun)} traced for jit returned a value of type "
                f"{type(leaf)} at output component {path or 'its result'}, which is not a valid JAX type"
            )


def debug_info(fun: Any, args: tuple, kwargs: dict[str, Any], options: JitOptions) -> DebugInfo:
    """What a jaxpr should remember of the function: its name, place and the names of its flat arguments."""
    place = source.of_function(fun)
    paths = [
        name + tree_registry.keystr(path)
        for name, x in _dynamic_arguments(fun, args, kwargs, options)
        for path, _ in tree.tree_flatten_with_path(x)[0]
    ]
    return DebugInfo(function_name(fun), place.file, place.line, tuple(paths))


def _dynamic_arguments(fun: Any, args: tuple, kwargs: dict[str, Any], options: JitOptions) -> list[tuple[str, Any]]:
    """Names and values of the arguments that are not static, in the order of their leaves."""
    names = argument_names(fun, args, {})
    positional = [(names[i], x) for i, x in enumerate(args) if i not in options.static_argnums]
    return positional + [(name, kwargs[name]) for name in sorted(kwargs) if name not in options.static_argnames]


def _leaf_arguments(fun: Any, args: tuple, kwargs: dict[str, Any], options: JitOptions) -> list[str]:
    """For each leaf of the arguments that are not static the name of its argument."""
    arguments = _dynamic_arguments(fun, args, kwargs, options)
    return [name for name, x in arguments for _ in tree.tree_leaves(x)]


def _dynamic_shapes(fun: Any, shapes: Mapping[str, Any] | None) -> DynamicShapes | None:
    if shapes is None:
        return None
    sig = signature(fun)
    unknown = [name for name in shapes if sig is not None and name not in sig.parameters]
    if unknown:
        raise ValueError(
            f"jit: dynamic_shapes names {', '.join(map(repr, unknown))}; {function_name(fun)} takes the arguments "
            f"{', '.join(sig.parameters) if sig else ''}"
        )
    given = [shape for shape in shapes.values() if not isinstance(shape, str)]
    scope = scope_of(given) if any(map(is_symbolic, given)) else SymbolicScope()
    return DynamicShapes(tuple((name, s if isinstance(s, str) else tuple(s)) for name, s in shapes.items()), scope)


class _NotGiven:
    """Stands for the function where `jit` is called for a decorator."""

    def __repr__(self) -> str:
        return "..."


_NOT_GIVEN: Any = _NotGiven()


def jit(
    fun: Callable[..., Any] = _NOT_GIVEN,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    in_shardings: Any = None,
    out_shardings: Any = None,
    compiler: str | None = None,
    compiler_options: dict[str, Any] | None = None,
    dynamic_shapes: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a function, once for each combination of types of its arguments.

    The function is run with tracers in place of arrays, its operations are recorded, compiled as one program and kept.
    Later calls with arguments of the same shapes and dtypes run that program and return before it has finished.

    Args:
        fun: a pure function of arrays and pytrees of arrays. Without it, a decorator.
        static_argnums: positions of arguments that are Python values: hashable, a new trace for each.
        static_argnames: names of such arguments.
        donate_argnums: positions of arguments whose memory the results may take over; they must not be used again.
        donate_argnames: names of such arguments.
        keep_unused: accepted for compatibility; unused arguments are always kept.
        device: where to run; by default where the arguments are.
        backend: the platform to run on ("cpu", "vulkan", "cuda", or that of a PJRT plugin: "xla", "tpu"...).
        inline: whether calls within other traced functions disappear into them.
        in_shardings: where arguments are to be: a sharding or PartitionSpec (of the mesh of `set_mesh`) for all, or a
            pytree prefix of the tuple of positional arguments; None where nothing is said. Arrays that were put
            elsewhere are refused, others are moved.
        out_shardings: where results are to be; a pytree prefix of the output. There is no partitioner: the program runs
            on one device, on whole arrays, but for what is in `shard_map`.
        compiler: on the CPU, which compiler: "iree" (the default); "xla", through the plugin that `veery[xla]` brings;
            or "auto": XLA, which compiles in a tenth of the time, until IREE's program is there too, then the faster
            of the two on the arguments of a call, which is remembered in the cache on disk. Arrays are shared between
            both; results may differ in last digits. Programs with effects are IREE's. The same as the compiler option
            "compiler".
        compiler_options: a dictionary of options of the compilation, which win over those of the setting
            `veery_compiler_options`:
            "optimize_for": "speed" (the default), "latency" (a call runs in its caller's thread), "throughput" (it
            runs on the worker threads and returns at once), "size" (programs a sixth smaller);
            "kernels": False, to have IREE make all dispatches: no kernels of veery's own for loops, small operations,
            and what moves elements;
            "queue": "inline", "threaded" or "auto" (the default, by the work; see `Compiled.cost_analysis`);
            "autotune": True, to measure, at the first call and on its arguments, which of some flags are fastest, and
            to remember it in the cache on disk (it takes a few compilations; `lower(...).compile()` does not tune);
            and any option of IREE's compiler, such as "iree-opt-level": "O2", which wins over these.
        dynamic_shapes: for arguments by name a shape with names in place of sizes, such as {"x": "b, ..."}: one program
            for all sizes from 1 on (in JAX, one for each shape). It holds for every array in the argument; `...` are
            dimensions that stay; arguments in which a name occurs must agree on it. A tuple from
            `export.symbolic_shape` brings constraints. See below.

    Returns:
        A function like `fun`, with methods `lower`, `trace`, `eval_shape` and `clear_cache`.

    Raises:
        TypeError: fun is not callable, or an argument or output is not an array.
        ValueError: a static or dynamically shaped argument does not exist, a static one cannot be hashed or is donated,
            sizes do not fit the dynamic shapes, or there is no such compiler option.
        InconclusiveDimensionOperation: the function decides by a dynamic size, as in `if x.shape[0] > 8`.
        LoweringError: an operation has no form for dynamic shapes (see below).

    With dynamic shapes a function may broadcast, reshape, slice, join, reduce, contract and convolve, and apply any
    elementwise function; `x.shape[0]` is a dimension for shapes and an integer for arithmetic. Ranks, dtypes, what
    Python code decides by, and the sizes in sorting, scans, windows, random numbers and linear algebra are not dynamic.
    Under other transformations each shape is compiled by itself: put jit outermost, as in
    jit(grad(f), dynamic_shapes=...).

    >>> import veery, veery.numpy as jnp
    >>> @veery.jit
    ... def selu(x, alpha=1.67, scale=1.05):
    ...     return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)
    >>> selu(jnp.arange(3.0)).shape
    (3,)
    >>> normalise = veery.jit(lambda x: x / x.sum(), dynamic_shapes={"x": "n"})
    >>> [normalise(jnp.ones(n)).shape for n in (2, 3, 5)], normalise._cache_size()
    ([(2,), (3,), (5,)], 1)
    """
    options = dict(
        static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
        donate_argnames=donate_argnames, device=device, backend=backend, inline=inline,
        in_shardings=in_shardings, out_shardings=out_shardings,
        compiler=compiler, compiler_options=compiler_options, dynamic_shapes=dynamic_shapes,
    )  # fmt: skip
    if fun is _NOT_GIVEN:
        return functools.partial(jit, **options)  # type: ignore[arg-type]
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    check_traceable(fun)
    static = positions_and_names(fun, static_argnums, static_argnames, "static")
    donate = positions_and_names(fun, donate_argnums, donate_argnames, "donate")
    for option, both in (("argnames", static[1] & donate[1]), ("argnums", set(static[0]) & set(donate[0]))):
        if both:
            raise ValueError(f"jit: static_{option} and donate_{option} cannot intersect; both have {sorted(both)}")
    shardings = None
    if in_shardings is not None or out_shardings is not None:
        for places, what in ((in_shardings, "in_shardings"), (out_shardings, "out_shardings")):
            if places is not None and (device is not None or backend is not None):
                raise ValueError(f"If backend or device is specified on jit, then {what} should not be specified.")
            check_leaves(places, what)
        shardings = JitShardings(in_shardings, out_shardings)
    if backend is not None and device is not None:
        raise ValueError(f"can't specify both a device and a backend for jit, got {device=} and {backend=}")
    if backend is not None:
        device = platforms.devices(backend)[0]
    asked = pairs({**dict(pairs(compiler_options)), **({} if compiler is None else {"compiler": compiler})})
    dynamic = _dynamic_shapes(fun, dynamic_shapes)
    asked_here = str(sys._getframe(1).f_globals.get("__name__")).startswith("veery.")
    return JitFunction(fun, JitOptions(*static, *donate, device, inline, asked, dynamic, shardings), asked_here)
