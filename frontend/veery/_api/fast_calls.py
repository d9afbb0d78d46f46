"""Functions, made for one kind of call, that check that a call is of this kind and run the program known for it.

A call most often is like the call before. What a call like it needs is written out as code without loops, beside which
finding it out anew is slow: `x + 1` on 8 floats takes 4.2 instead of 5.7 us, with a number as an argument 8.6 instead
of 13 us, the program included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veery._core.array import ArrayImpl
from veery._core.avals import aval_of
from veery._core.config import config
from veery._core.trace import eval_trace, thread_state
from veery._core.tree import tree_unflatten
from veery._core.tree_registry import is_namedtuple_type
from veery._dispatch import as_array

STATIC = object()

# What a function gives that was made for another kind of call.
MISS = object()

# (args, kwargs) -> the results, or MISS
FastCall = Callable[[tuple[Any, ...], dict[str, Any]], Any]

# What is met in arguments that are not known: a static one that cannot be hashed or compared, no array at all...
MISMATCH = Exception

# Python takes 40 us to compile the code for a leaf.
_MOST_LEAVES = 2048


@dataclass(frozen=True, eq=False)
class Kind:
    """Calls that one program serves.

    Attributes:
        args: for each positional argument its structure (a PyTreeDef), or STATIC.
        kwargs: the same for each keyword argument, in the order of their leaves.
        static: types and values of static arguments.
        avals: the types of the leaves.
        arrays: whether they are arrays; others are Python's numbers and NumPy's arrays.
        trace_key: the settings.
        device: which holds the arrays.
        place: where numbers and NumPy's arrays go; None for the default device.
        needs_commitment: whether one of the arrays must have been put there by the user.
    """

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    static: tuple[Any, ...]
    avals: Sequence[Any]
    arrays: Sequence[bool]
    trace_key: tuple[Any, ...]
    device: Any
    place: Any
    needs_commitment: bool


@dataclass(frozen=True, eq=False)
class Program:
    """What runs.

    Attributes:
        call: takes buffers and gives buffers.
        consts: the buffers of arrays that the function closes over, which come first.
        committed: whether results are committed to the device whatever the arguments are.
        out_tree: the structure of the results (a PyTreeDef).
        out_avals: their types.
    """

    call: Callable[[list[Any]], Sequence[Any]]
    consts: Sequence[Any]
    committed: bool
    out_tree: Any
    out_avals: Sequence[Any]


def fast_call(kind: Kind, program: Program) -> FastCall | None:
    """A function of `args` and `kwargs` that runs the program for calls of a kind, and gives MISS for others.

    It is None for arguments with nodes of types that a user has registered, and for very many arrays.
    """
    writer = _Writer()
    try:
        lines = writer.call(kind, program)
    except _NoCode:
        return None
    exec(compile("\n".join(lines), __file__, "exec"), writer.names)
    function: FastCall = writer.names["fast"]
    return function


def _placed(x: Any, aval: Any, device: Any) -> Any:
    """The buffer of a number, or of an array of NumPy's.

    Raises:
        ValueError: it has another type.
    """
    if type(x) is ArrayImpl or aval_of(x) is not aval:
        raise ValueError(aval)
    return as_array(x, device, aval)._buffer


class _NoCode(Exception):
    """A structure that is left to optree."""


class _Writer:
    """The code of a function, and the global variables that it reads."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.static: list[str] = []
        self.names: dict[str, Any] = {}
        self.numbers: dict[int, str] = {}
        self.variables = 0

    def call(self, kind: Kind, program: Program) -> list[str]:
        state, settings = self.constant(thread_state), self.constant(config)
        key = self.constant(kind.trace_key)
        self.check(f"{state}.trace is not {self.constant(eval_trace)}")
        self.check(f"{settings}._trace_key is not {key} and {settings}._trace_key != {key}")
        self.argument_list("args", kind.args, kind.kwargs)
        if kind.static:
            self.check(f"({''.join(f'{s}, ' for s in self.static)}) != {self.constant(kind.static)}")
        buffers = [
            self.buffer(leaf, aval, is_array, kind)
            for leaf, aval, is_array in zip(self.leaves, kind.avals, kind.arrays, strict=True)
        ]
        commitments = [f"{leaf}._committed" for leaf, is_array in zip(self.leaves, kind.arrays) if is_array]
        committed = str(program.committed)
        if commitments and not program.committed:
            committed = "committed"
            self.lines.append(f"committed = {' or '.join(commitments)}")
        if kind.needs_commitment:
            self.check(f"not {committed}")
        passed = ", ".join([*map(self.constant, program.consts), *buffers])
        outs = [self.variable() for _ in program.out_avals]
        assign = f"[{', '.join(outs)}] = " if outs else ""
        made = [
            f"{self.constant(ArrayImpl)}({self.constant(aval)}, {out}, {committed})"
            for out, aval in zip(outs, program.out_avals)
        ]
        indent = "\n        "
        body = [
            "    try:" + indent + indent.join(self.lines),
            f"    except {self.constant(MISMATCH)}:{indent}return {self.constant(MISS)}",
            f"    {assign}{self.constant(program.call)}([{passed}])",
            f"    return {self.result(program, made)}",
        ]
        return ["def fast(args, kwargs):", *body]

    def buffer(self, leaf: str, aval: Any, is_array: bool, kind: Kind) -> str:
        """The variable of the buffer of a leaf."""
        buffer = self.variable()
        if is_array:
            device = self.constant(kind.device)
            self.lines.append(f"{buffer} = {leaf}._buffer")
            self.check(f"{leaf}.aval is not {self.constant(aval)} or {buffer}._spec.device is not {device}")
        else:
            place = self.constant(kind.place)
            self.lines.append(f"{buffer} = {self.constant(_placed)}({leaf}, {self.constant(aval)}, {place})")
        return buffer

    def argument_list(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.check("kwargs" if not kwargs else f"len(kwargs) != {len(kwargs)}")
        found = [self.variable() for _ in args]
        self.lines.append(f"[{', '.join(found)}] = {name}" if found else f"if {name}: raise ValueError")
        for key in kwargs:
            found.append(self.variable())
            self.lines.append(f"{found[-1]} = kwargs[{key!r}]")
        for variable, treedef in zip(found, [*args, *kwargs.values()]):
            if treedef is STATIC:
                self.static += [f"type({variable})", variable]
            else:
                self.node(variable, treedef)

    def node(self, variable: str, treedef: Any) -> None:
        data = treedef.node_data()
        if data is None:
            self.leaves.append(variable)
            if len(self.leaves) > _MOST_LEAVES:
                raise _NoCode
            return
        kind, keys = data
        children = treedef.children()
        found = [self.variable() for _ in children]
        if kind is type(None):
            self.check(f"{variable} is not None")
        elif kind in (tuple, list) or is_namedtuple_type(kind):
            self.check(f"type({variable}) is not {self.constant(kind)}")
            self.lines.append(f"[{', '.join(found)}] = {variable}" if found else f"if {variable}: raise ValueError")
        elif kind is dict:
            self.check(f"type({variable}) is not dict or len({variable}) != {len(keys)}")
            self.lines += [f"{each} = {variable}[{self.constant(key)}]" for each, key in zip(found, keys)]
        else:
            raise _NoCode
        for each, child in zip(found, children):
            self.node(each, child)

    def result(self, program: Program, made: list[str]) -> str:
        """An expression of the results in their structure."""
        try:
            return self.built(tree_unflatten(program.out_tree, range(len(made))), made)
        except _NoCode:
            return f"{self.constant(tree_unflatten)}({self.constant(program.out_tree)}, [{', '.join(made)}])"

    def built(self, pattern: Any, made: list[str]) -> str:
        """An expression of what a pattern holds the numbers of, whose dictionaries have the order of their keys."""
        if type(pattern) is int:
            return made[pattern]
        if pattern is None:
            return "None"
        if type(pattern) is tuple:
            return f"({''.join(f'{self.built(each, made)}, ' for each in pattern)})"
        if type(pattern) is list:
            return f"[{', '.join(self.built(each, made) for each in pattern)}]"
        if type(pattern) is dict:
            return f"{{{', '.join(f'{self.constant(k)}: {self.built(x, made)}' for k, x in pattern.items())}}}"
        raise _NoCode

    def check(self, condition: str) -> None:
        self.lines.append(f"if {condition}: return {self.constant(MISS)}")

    def variable(self) -> str:
        self.variables += 1
        return f"v{self.variables}"

    def constant(self, value: Any) -> str:
        if type(value) in (str, int):
            return repr(value)
        if isinstance(value, type) and value in (tuple, list):
            return value.__name__
        name = self.numbers.get(id(value))
        if name is None:
            name = self.numbers[id(value)] = f"c{len(self.names)}"
            self.names[name] = value
        return name
