"""Modules of StableHLO: chains of operations on small arrays of whole numbers, each beside what NumPy makes of it.

Programs of other systems come as such modules, without the rules that ours are lowered by, so that the compiler's
passes see forms that our own programs never have. All numbers are so small that floats are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.draw import Draw

Step = Callable[["Chain"], None]

STEPS: list[Step] = []
_NAMES = {
    "float32": "f32", "float16": "f16", "bool": "i1",
    **{f"{u}int{n}": f"{u}i{n}" for u in ("", "u") for n in (8, 16, 32)},
}  # fmt: skip
_LARGEST = 1000  # of floats: 16 bits hold them
_MOST_ELEMENTS = 3000
_MOST_AXES = 4


class Unfit(Exception):
    """A step that cannot be made of the chain's value."""


@dataclass
class Value:
    """A value of a chain: its name in the text, and what it must be."""

    name: str
    x: np.ndarray

    @property
    def type(self) -> str:
        return tensor(self.x.shape, self.x.dtype)


@dataclass
class Chain:
    """A value to which operation after operation is applied.

    Attributes:
        draw: where the choices come from.
        key: what its names in the text begin with.
        value: the last one.
        lines: the text.
        steps: what was done, in words.
    """

    draw: Draw
    key: str
    argument: Value
    value: Value
    lines: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    earlier: list[Value] = field(default_factory=list)
    count: int = 0

    @property
    def x(self) -> np.ndarray:
        return self.value.x

    @property
    def rank(self) -> int:
        return self.x.ndim

    def axis(self) -> int:
        need(self.rank > 0)
        return self.draw.integer(0, self.rank - 1)

    def name(self) -> str:
        self.count += 1
        return f"%{self.key}_{self.count}"

    def made(self, text: str, x: Any) -> Value:
        """The value of an operation, whose operands and types are `text`."""
        value = Value(self.name(), np.asarray(x))
        self.lines.append(f"{value.name} = {text}")
        return value

    def unary(self, operation: str, x: Any, given: Value | None = None, options: str = "") -> Value:
        given = given or self.value
        types = f"({given.type}) -> {tensor(np.shape(x), np.asarray(x).dtype)}"
        return self.made(f"stablehlo.{operation} {given.name}{options} : {types}", x)

    def binary(self, operation: str, a: Value, b: Value, x: Any) -> Value:
        types = f"({a.type}, {b.type}) -> {tensor(np.shape(x), np.asarray(x).dtype)}"
        return self.made(f"stablehlo.{operation} {a.name}, {b.name} : {types}", x)

    def constant(self, x: Any) -> Value:
        x = np.asarray(x)
        return self.made(f"stablehlo.constant {dense(x)} : {tensor(x.shape, x.dtype)}", x)

    def then(self, value: Value, step: str) -> None:
        """Go on with a value."""
        self.earlier.append(self.value)
        self.value = value
        self.steps.append(step)


def need(condition: bool) -> None:
    if not condition:
        raise Unfit


def tensor(shape: Sequence[int], dtype: Any) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{_NAMES[np.dtype(dtype).name]}>"


def dense(x: np.ndarray) -> str:
    def text(part: np.ndarray) -> str:
        if part.ndim:
            return f"[{', '.join(map(text, part))}]"
        if part.dtype.kind == "f" and np.isinf(part):
            return {"float32": "0xFF800000", "float16": "0xFC00"}[part.dtype.name]
        return str(part.item()).lower()

    return f"dense<{text(x)}>"


def array(numbers: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, numbers))}>"


def lowest(dtype: np.dtype) -> Any:
    if dtype.kind == "f":
        return dtype.type(-np.inf)
    return np.zeros((), dtype) if dtype.kind == "b" else np.array(np.iinfo(dtype).min, dtype)


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


@step
def convert(c: Chain) -> None:
    dtype = c.draw.pick("float32", "float32", "float16", "int8", "int32", "uint8", "uint16", "bool")
    need(dtype != c.x.dtype.name)
    need(dtype[0] != "u" or c.x.dtype.kind != "f" or c.x.size == 0 or c.x.min() >= 0)  # else undefined
    info = np.iinfo(dtype) if "int" in dtype else None
    need(info is None or c.x.dtype.kind != "f" or np.abs(c.x).max() <= info.max)
    c.then(c.unary("convert", c.x != 0 if dtype == "bool" else c.x.astype(dtype)), f"convert {dtype}")


@step
def negate(c: Chain) -> None:
    if c.x.dtype == bool:
        c.then(c.made(f"stablehlo.not {c.value.name} : {c.value.type}", ~c.x), "not")
    else:
        c.then(c.made(f"stablehlo.negate {c.value.name} : {c.value.type}", -c.x), "negate")


@step
def combine(c: Chain) -> None:
    """The value and one from before it, of its type; or itself."""
    others = [v for v in c.earlier if v.type == c.value.type]
    other = c.draw.pick(*others) if others else c.value
    operation, f = c.draw.pick(
        *((("add", np.add), ("subtract", np.subtract), ("maximum", np.maximum)) if c.x.dtype != bool else ()),
        *((("and", np.bitwise_and), ("xor", np.bitwise_xor)) if c.x.dtype.kind != "f" else ()),
    )
    c.then(c.binary(operation, c.value, other, f(c.x, other.x)), f"{operation} with {other.name}")


@step
def compare(c: Chain) -> None:
    need(c.x.dtype != bool)
    zero = c.constant(np.zeros_like(c.x))
    how = c.draw.pick("GT", "EQ")
    text = f"stablehlo.compare {how}, {c.value.name}, {zero.name} : ({zero.type}, {zero.type})"
    c.then(c.made(f"{text} -> {tensor(c.x.shape, bool)}", c.x > 0 if how == "GT" else c.x == 0), f"{how} 0")


@step
def select(c: Chain) -> None:
    need(c.x.dtype == bool)
    dtype = c.draw.pick("float32", "float16", "int8", "uint8")
    a, b = (c.constant(np.full(c.x.shape, n, dtype)) for n in (7, 3))
    text = f"stablehlo.select {c.value.name}, {a.name}, {b.name} : {c.value.type}, {a.type}"
    c.then(c.made(text, np.where(c.x, a.x, b.x)), f"select {dtype}")


@step
def broadcast(c: Chain) -> None:
    need(c.rank < _MOST_AXES)
    at, n = c.draw.integer(0, c.rank), c.draw.integer(1, 5)
    y = np.broadcast_to(np.expand_dims(c.x, at), (*c.x.shape[:at], n, *c.x.shape[at:]))
    dims = [i + (i >= at) for i in range(c.rank)]
    c.then(c.unary("broadcast_in_dim", y, options=f", dims = {dims}"), f"broadcast {n} at {at}")


@step
def transpose(c: Chain) -> None:
    order = c.draw.permutation(c.rank)
    c.then(c.unary("transpose", np.transpose(c.x, order), options=f", dims = {order}"), f"transpose {order}")


def turned(c: Chain, axis: int) -> Value:
    return c.made(f"stablehlo.reverse {c.value.name}, dims = [{axis}] : {c.value.type}", np.flip(c.x, axis))


@step
def reverse(c: Chain) -> None:
    axis = c.axis()
    c.then(turned(c, axis), f"reverse {axis}")


@step
def reshape(c: Chain) -> None:
    at = c.draw.integer(0, c.rank)
    shapes = [(c.x.size,), (*c.x.shape[:at], 1, *c.x.shape[at:])]
    shapes += [(2, c.x.size // 2)] * (c.x.size % 2 == 0) + [(c.x.size // 3, 3)] * (c.x.size % 3 == 0)
    shape = c.draw.pick(*shapes)
    need(len(shape) <= _MOST_AXES)
    c.then(c.unary("reshape", c.x.reshape(shape)), f"reshape {shape}")


def sliced(c: Chain, bounds: Sequence[tuple[int, int, int]]) -> Value:
    text = ", ".join(":".join(map(str, each)) for each in bounds)
    return c.unary("slice", c.x[tuple(slice(*each) for each in bounds)], options=f" [{text}]")


@step
def slice_(c: Chain) -> None:
    bounds = []
    for n in c.x.shape:
        start = c.draw.integer(0, n - 1)
        whole = c.draw.chance(0.4)
        bounds.append((0, n, 1) if whole else (start, c.draw.integer(start + 1, n), c.draw.pick(1, 1, 2, 3)))
    c.then(sliced(c, bounds), f"slice {bounds}")


@step
def pad(c: Chain) -> None:
    need(c.rank > 0)
    low, high = ([c.draw.integer(-1, 2) for _ in c.x.shape] for _ in range(2))
    interior = [c.draw.pick(0, 0, 0, 1) for _ in c.x.shape]
    spread = np.zeros([n + (n - 1) * i for n, i in zip(c.x.shape, interior)], c.x.dtype)
    spread[tuple(slice(None, None, i + 1) for i in interior)] = c.x
    need(min(n + a + b for n, a, b in zip(spread.shape, low, high)) > 0)
    y = np.pad(spread, [(max(a, 0), max(b, 0)) for a, b in zip(low, high)])
    y = y[tuple(slice(max(-a, 0), n + min(b, 0)) for a, b, n in zip(low, high, y.shape))]
    zero = c.constant(np.zeros((), c.x.dtype))
    text = f"stablehlo.pad {c.value.name}, {zero.name}, low = {low}, high = {high}, interior = {interior}"
    types = f"({c.value.type}, {zero.type}) -> {tensor(y.shape, y.dtype)}"
    c.then(c.made(f"{text} : {types}", y), f"pad {low} {high} {interior}")


@step
def concatenate(c: Chain) -> None:
    """The value and itself, or itself turned about."""
    axis = c.axis()
    other = c.draw.pick(c.value, turned(c, c.axis()))
    y = np.concatenate([c.x, other.x], axis)
    text = f"stablehlo.concatenate {c.value.name}, {other.name}, dim = {axis} : ({c.value.type}, {other.type})"
    c.then(c.made(f"{text} -> {tensor(y.shape, y.dtype)}", y), f"concatenate {axis} with {other.name}")


def positions(c: Chain, axis: int) -> np.ndarray:
    """Where each element is along an axis."""
    return np.indices(c.x.shape)[axis]


@step
def add_positions(c: Chain) -> None:
    need(c.x.dtype != bool)
    axis = c.axis()
    y = positions(c, axis)
    iota = c.made(f"stablehlo.iota dim = {axis} : {c.value.type}", y.astype(c.x.dtype))
    c.then(c.binary("add", c.value, iota, c.x + iota.x), f"add iota {axis}")


@step
def reduce(c: Chain) -> None:
    need(c.rank > 0)
    axes, dtype = sorted(c.draw.subset(range(c.rank))), c.x.dtype
    if dtype.kind == "b":
        operation, init, y = "or", False, c.x.any(tuple(axes))
    elif c.draw.chance(0.5):
        operation, init, y = "add", 0, c.x.sum(tuple(axes), dtype=dtype)
    else:
        operation, init, y = "maximum", lowest(dtype), c.x.max(tuple(axes))
    start = c.constant(np.array(init, dtype))
    text = f"stablehlo.reduce({c.value.name} init: {start.name}) applies stablehlo.{operation}"
    types = f"({c.value.type}, {start.type}) -> {tensor(np.shape(y), dtype)}"
    value = c.made(f"{text} across dimensions = {axes} : {types}", np.asarray(y, dtype))
    c.then(value, f"reduce {operation} {axes}")


@step
def product(c: Chain) -> None:
    """With itself, turned about or not, along one axis, with a batch axis where there are more."""
    need(0 < c.rank <= 3 and c.x.dtype != bool)
    other = c.draw.pick(c.value, turned(c, c.axis()))
    along = c.axis()
    batch = [i for i in range(c.rank) if i != along][: c.draw.integer(0, 1)]
    letters = "abc"[: c.rank]
    theirs = "".join(l if i == along or i in batch else l.upper() for i, l in enumerate(letters))
    first = "".join(letters[i] for i in batch)
    kept = first + "".join(l for i, l in enumerate(letters) if i != along and i not in batch)
    kept += "".join(l for l in theirs if l.isupper())
    y = np.einsum(f"{letters},{theirs}->{kept}", *(v.x.astype("int64") for v in (c.value, other))).astype(c.x.dtype)
    need(y.ndim <= _MOST_AXES)
    dims = (f", batching_dims = {batch} x {batch}" if batch else "") + f", contracting_dims = [{along}] x [{along}]"
    text = f"stablehlo.dot_general {c.value.name}, {other.name}{dims} : ({c.value.type}, {other.type})"
    c.then(c.made(f"{text} -> {tensor(y.shape, y.dtype)}", y), f"product{dims} with {other.name}")


def places(c: Chain, count: int) -> np.ndarray:
    """Some along the first axis, of which a few are outside."""
    n = c.x.shape[0]
    low, high = (-2, n + 2) if c.draw.chance(0.3) else (0, n)
    return c.draw.integers(low, high, count, 1, dtype=c.draw.pick("int32", "int8"))


@step
def gather(c: Chain) -> None:
    need(c.rank > 0)
    index = c.constant(places(c, c.draw.integer(1, 4)))
    inside = np.clip(index.x[:, 0], 0, c.x.shape[0] - 1)
    sizes, y = array((1, *c.x.shape[1:])), c.x[inside]
    numbers = f"offset_dims = {list(range(1, c.rank))}, collapsed_slice_dims = [0], start_index_map = [0]"
    options = f"dimension_numbers = #stablehlo.gather<{numbers}, index_vector_dim = 1>, slice_sizes = {sizes}"
    types = f"({c.value.type}, {index.type}) -> {tensor(y.shape, y.dtype)}"
    text = f'"stablehlo.gather"({c.value.name}, {index.name}) <{{{options}}}> : {types}'
    c.then(c.made(text, y), f"gather {index.x[:, 0]}")


@step
def scatter(c: Chain) -> None:
    """Parts of the value, turned about, added at other places of it."""
    need(c.rank > 0 and c.x.dtype != bool)
    n = c.x.shape[0]
    index = c.constant(places(c, c.draw.integer(1, min(n, 4))))
    whole, count = turned(c, 0), len(index.x)
    bounds = [f"0:{count}", *(f"0:{m}" for m in c.x.shape[1:])]
    updates = c.unary("slice", whole.x[:count], whole, f" [{', '.join(bounds)}]")
    y = c.x.copy()
    for place, row in zip(index.x[:, 0], updates.x):
        if 0 <= place < n:
            y[place] += row
    numbers = f"update_window_dims = {list(range(1, c.rank))}, inserted_window_dims = [0]"
    numbers = f"#stablehlo.scatter<{numbers}, scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    operands = ", ".join(v.name for v in (c.value, index, updates))
    text = f'"stablehlo.scatter"({operands}) <{{scatter_dimension_numbers = {numbers}}}> ({{'
    types = f"({c.value.type}, {index.type}, {updates.type}) -> {c.value.type}"
    c.then(c.made(f"{text}\n{body(c, 'add')}\n}}) : {types}", y), f"scatter {index.x[:, 0]}")


def body(c: Chain, operation: str) -> str:
    """A block that applies an operation to two numbers."""
    a, b, result = (c.name() for _ in range(3))
    kind = tensor((), c.x.dtype)
    made = kind if operation[:7] != "compare" else f"({kind}, {kind}) -> tensor<i1>"
    text = f"{result} = stablehlo.{operation} {a}, {b} : {made}"
    return f"^bb0({a}: {kind}, {b}: {kind}):\n{text}\nstablehlo.return {result} : {made.split(' -> ')[-1]}"


@step
def dynamic_slice(c: Chain) -> None:
    """Starts outside are moved inside."""
    need(c.rank > 0)
    sizes = [c.draw.integer(1, n) for n in c.x.shape]
    dtype = c.draw.pick("int32", "int8" if max(c.x.shape) < 127 else "int16")
    starts = [c.draw.integer(-2, n + 1) for n in c.x.shape]
    indices = [c.constant(np.array(start, dtype)) for start in starts]
    inside = [min(max(start, 0), n - size) for start, n, size in zip(starts, c.x.shape, sizes)]
    y = c.x[tuple(slice(a, a + n) for a, n in zip(inside, sizes))]
    text = f"stablehlo.dynamic_slice {', '.join(v.name for v in (c.value, *indices))}, sizes = {sizes}"
    types = f"({', '.join(v.type for v in (c.value, *indices))}) -> {tensor(y.shape, y.dtype)}"
    c.then(c.made(f"{text} : {types}", y), f"dynamic slice {starts} {sizes}")


@step
def update(c: Chain) -> None:
    """A part of the value written to another place of it."""
    need(c.rank > 0 and min(c.x.shape) > 1)
    part = sliced(c, [(1, n, 1) for n in c.x.shape])
    zero = c.constant(np.int32(0))
    y = c.x.copy()
    y[tuple(slice(0, n - 1) for n in c.x.shape)] = part.x
    operands = [c.value, part, *[zero] * c.rank]
    text = f"stablehlo.dynamic_update_slice {', '.join(v.name for v in operands)}"
    c.then(c.made(f"{text} : ({', '.join(v.type for v in operands)}) -> {c.value.type}", y), "shifted update")


@step
def window(c: Chain) -> None:
    need(c.rank > 0 and c.x.dtype != bool)
    widths = [min(n, c.draw.pick(1, 2, 3)) for n in c.x.shape]
    strides = [c.draw.pick(1, 1, 2) for _ in c.x.shape]
    dilations = [c.draw.pick(1, 1, 1, 2) if (w - 1) * 2 < n else 1 for w, n in zip(widths, c.x.shape)]
    padding = [(c.draw.pick(0, 0, w - 1), c.draw.pick(0, 0, w - 1)) for w in widths]
    operation, init, fold = c.draw.pick(("maximum", lowest(c.x.dtype), np.max), ("add", 0, np.sum))
    padded = np.pad(c.x, padding, constant_values=init)
    spans = [(w - 1) * d + 1 for w, d in zip(widths, dilations)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, spans)
    seen = seen[tuple(slice(None, None, s) for s in strides) + tuple(slice(None, None, d) for d in dilations)]
    y = fold(seen, tuple(range(-c.rank, 0))).astype(c.x.dtype)
    start = c.constant(np.array(init, c.x.dtype))
    sizes = {"window_dimensions": widths, "window_strides": strides, "window_dilations": dilations}
    options = ", ".join(f"{name} = {array(numbers)}" for name, numbers in sizes.items())
    options += f", padding = dense<{[list(p) for p in padding]}> : tensor<{c.rank}x2xi64>"
    text = f'"stablehlo.reduce_window"({c.value.name}, {start.name}) <{{{options}}}> ({{\n{body(c, operation)}\n}})'
    types = f"({c.value.type}, {start.type}) -> {tensor(y.shape, y.dtype)}"
    c.then(c.made(f"{text} : {types}", y), f"window {operation} {options}")


@step
def sort(c: Chain) -> None:
    need(c.x.dtype != bool)
    axis = c.axis()
    text = f'"stablehlo.sort"({c.value.name}) <{{dimension = {axis} : i64}}> ({{\n{body(c, "compare LT,")}\n}})'
    c.then(c.made(f"{text} : ({c.value.type}) -> {c.value.type}", np.sort(c.x, axis)), f"sort {axis}")


@step
def order(c: Chain) -> None:
    """The places that a stable sort takes elements from."""
    need(c.x.dtype != bool)
    axis = c.axis()
    kind = tensor((), c.x.dtype)
    y = positions(c, axis)
    iota = c.made(f"stablehlo.iota dim = {axis} : {tensor(c.x.shape, 'int32')}", y.astype("int32"))
    a, b, i, j, less = (c.name() for _ in range(5))
    block = f"^bb0({a}: {kind}, {b}: {kind}, {i}: tensor<i32>, {j}: tensor<i32>):\n"
    block += f"{less} = stablehlo.compare LT, {a}, {b} : ({kind}, {kind}) -> tensor<i1>\n"
    block += f"stablehlo.return {less} : tensor<i1>"
    options = f"dimension = {axis} : i64, is_stable = true"
    text = f'"stablehlo.sort"({c.value.name}, {iota.name}) <{{{options}}}> ({{\n{block}\n}})'
    types = f"({c.value.type}, {iota.type}) -> ({c.value.type}, {iota.type})"
    value = Value(c.name(), np.argsort(c.x, axis, kind="stable").astype("int32"))
    c.lines.append(f"{value.name}:2 = {text} : {types}")
    value.name += "#1"
    c.then(value, f"order {axis}")


@step
def difference(c: Chain) -> None:
    """The value minus itself along another axis, or turned about."""
    need(c.rank > 0 and c.x.dtype != bool)
    if c.rank == 1:
        shape = c.x.shape * 2
        rows, columns = np.broadcast_to(c.x[:, None], shape), np.broadcast_to(c.x, shape)
        a = c.unary("broadcast_in_dim", rows, options=", dims = [0]")
        b = c.unary("broadcast_in_dim", columns, options=", dims = [1]")
    elif c.rank == 2 and c.x.shape[0] == c.x.shape[1]:
        a, b = c.value, c.unary("transpose", c.x.T, options=", dims = [1, 0]")
    else:
        a, b = c.value, turned(c, c.axis())
    c.then(c.binary("subtract", a, b, a.x - b.x), "difference")


def drawn(seed: int, number: int, length: int | None = None) -> list[Chain]:
    """The chains of a module; each is shorter than it was drawn where `length` says so."""
    return [_chain(Draw([seed, number, k], half=False, wide=False), f"c{k}", length) for k in range(8)]


def _chain(draw: Draw, key: str, length: int | None) -> Chain:
    dtype = draw.pick("float32", "float16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32")
    shape = [draw.integer(1, 9) for _ in range(draw.integer(1, 3))]
    x = np.asarray(draw.integers(-4, 5, *shape, dtype="int32"))
    argument = Value(f"%{key}", (np.abs(x) if dtype[0] == "u" else x).astype(dtype))
    chain = Chain(draw, key, argument, argument)
    wanted = draw.integer(2, 7)
    while len(chain.steps) < min(wanted, length or wanted):
        before = len(chain.lines), chain.value, len(chain.earlier), len(chain.steps)
        try:
            with np.errstate(all="ignore"):
                draw.pick(*STEPS)(chain)
            need(0 < chain.x.size <= _MOST_ELEMENTS)
            need(chain.x.dtype.kind != "f" or np.abs(chain.x).max() <= _LARGEST)
        except Unfit:
            lines, chain.value, earlier, steps = before
            del chain.lines[lines:], chain.earlier[earlier:], chain.steps[steps:]
    return chain


def text_of(chains: Sequence[Chain]) -> str:
    """A module whose function computes what the chains do."""
    arguments = ", ".join(f"{c.argument.name}: {c.argument.type}" for c in chains)
    types = ", ".join(c.value.type for c in chains)
    lines = "\n".join(line for c in chains for line in c.lines)
    outs = ", ".join(c.value.name for c in chains)
    return f"func.func public @main({arguments}) -> ({types}) {{\n{lines}\nreturn {outs} : {types}\n}}\n"
