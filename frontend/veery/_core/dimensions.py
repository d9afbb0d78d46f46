"""Dimensions that are known when a program runs: polynomials over variables such as b, which stand for integers >= 1.

They stand in shapes beside ints. What is decided while tracing (are two shapes equal, is a slice within bounds) is
decided for all values of the variables, or refused with InconclusiveDimensionOperation.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from veery._core import provided
from veery._core.errors import InconclusiveDimensionOperation

Dimension = Any  # an int or a DimExpr
Monomial = tuple[tuple[Any, int], ...]  # (factor, power)...; a factor is the name of a variable or an Operation
Bounds = tuple[float, float]

_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {"==": operator.eq, ">=": operator.ge, "<=": operator.le}


class Operation(NamedTuple):
    """A factor that is no polynomial: floordiv, mod, max or min of two dimensions."""

    name: str
    left: Dimension
    right: Dimension

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"


class SymbolicScope:
    """Where dimension variables and what is known of them live. Dimensions of different scopes do not mix.

    Args:
        constraints: texts such as "b >= 8", "b <= 2*c" or "mod(b, 4) == 0", which hold for all arguments.

    Raises:
        ValueError: a text is no constraint.
    """

    def __init__(self, constraints: Sequence[str] = ()):
        if isinstance(constraints, str):
            raise ValueError(f"constraints must be a sequence of strings, got {constraints!r}")
        self.constraints = tuple(constraints)
        self.nonnegative: list[Dimension] = []  # expressions that are >= 0
        self.rewrites: dict[Monomial, tuple[int, Dimension]] = {}  # monomials of which a multiple equals an expression
        self.checks: list[tuple[str, frozenset[str]]] = []  # what arguments must fulfil, and the variables in it
        for text in self.constraints:
            self._add(text)

    def _add(self, text: str) -> None:
        sign = next((sign for sign in _RELATIONS if sign in text), None)
        if sign is None:
            raise ValueError(f"Constraint parsing error: {text!r} must contain one of '==' or '>=' or '<='")
        left, right = (parse_dimension(part, self) for part in text.split(sign, 1))
        if sign != "==":
            self.nonnegative.append(left - right if sign == ">=" else right - left)
        else:
            self._add_equality(text, left, right)
        if not (sign == "==" and _is_variable(left)):  # a variable that equals an expression is replaced by it
            self.checks.append((text, variables_of(left) | variables_of(right)))

    def _add_equality(self, text: str, left: Dimension, right: Dimension) -> None:
        if not isinstance(left, DimExpr) or len(left.terms) != 1:
            raise ValueError(f"Constraint {text!r}: the left side must be one term: 'b', '2*b', 'b*c', 'mod(b, 4)'...")
        ((monomial, coefficient),) = left.terms.items()
        repeated = [m for m in getattr(right, "terms", ()) if _cancel(m, monomial) is not None]
        if repeated:
            raise ValueError(f"Constraint {text!r}: the right side must not hold the left one")
        self.rewrites[monomial] = coefficient, right

    def __repr__(self) -> str:
        return f"SymbolicScope({', '.join(map(repr, self.constraints))})"


class DimExpr:
    """A dimension as a polynomial with integer coefficients. Made by `symbolic_shape` and by arithmetic.

    +, -, *, //, %, ** (with constants), max and min give dimensions; /, and arithmetic with floats or arrays, give
    traced values. Comparisons give the answer that holds for all values of the variables; an order on which they do not
    agree raises InconclusiveDimensionOperation, an equality that does not always hold is False.
    """

    __slots__ = ("terms", "scope", "_hash")
    __array_ufunc__ = None  # NumPy leaves arithmetic to us

    def __init__(self, terms: Mapping[Monomial, int], scope: SymbolicScope):
        self.terms = dict(sorted(terms.items(), key=_order))
        self.scope = scope
        self._hash = hash((frozenset(terms.items()), id(scope)))

    # -- as a value ----------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> frozenset[str]:
        """The names in it."""
        names: set[str] = set()
        for factor in self._factors():
            if isinstance(factor, str):
                names.add(factor)
            else:
                names |= variables_of(factor.left) | variables_of(factor.right)
        return frozenset(names)

    def _factors(self) -> Iterable[Any]:
        return (factor for monomial in self.terms for factor, _ in monomial)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value for values of the variables: ints, other dimensions, or anything with +, *, //, %, max and min."""
        return _sum(coefficient * _product(m, values) for m, coefficient in self.terms.items())

    def __jax_array__(self) -> Any:
        return provided.operations.dimension_value(self)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return " ".join(
            text.removeprefix("+ ") if i == 0 else text
            for i, text in enumerate(_term_text(m, c) for m, c in self.terms.items())
        )

    __repr__ = __str__

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"the symbolic dimension {self} cannot be pickled or copied: it belongs to its scope")

    def __copy__(self) -> DimExpr:
        return self

    def __deepcopy__(self, memo: Any) -> DimExpr:
        return self

    def __int__(self) -> NoReturn:
        raise _inconclusive(f"Symbolic dimension '{self}' used in a context that requires a constant")

    __float__ = __int__

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._as_array(operator.add, other)
        total = dict(self.terms)
        for monomial, coefficient in terms.items():
            total[monomial] = total.get(monomial, 0) + coefficient
        return _make(total, self.scope)

    def __mul__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._as_array(operator.mul, other)
        total: dict[Monomial, int] = {}
        for (a, p), (b, q) in itertools.product(self.terms.items(), terms.items()):
            monomial = _multiply(a, b)
            total[monomial] = total.get(monomial, 0) + p * q
        return _make(total, self.scope)

    def __sub__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        return self._as_array(operator.sub, other) if terms is None else self + -1 * _make(terms, self.scope)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return -1 * self

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, int) or power < 0:
            return self._as_array(operator.pow, power)
        return math.prod([self] * power)

    def __floordiv__(self, other: Any) -> Any:
        return self._as_array(operator.floordiv, other) if self._terms_of(other) is None else _floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _floordiv(other, self)

    def __mod__(self, other: Any) -> Any:
        return self._as_array(operator.mod, other) if self._terms_of(other) is None else _mod(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _mod(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return self._as_array(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__jax_array__()

    __radd__ = __add__
    __rmul__ = __mul__

    def _terms_of(self, other: Any) -> Mapping[Monomial, int] | None:
        """The terms of an operand that is a dimension, None for another."""
        if isinstance(other, DimExpr):
            _check_scope(self, other)
            return other.terms
        try:
            value = operator.index(other)
        except (TypeError, InconclusiveDimensionOperation):
            return None
        return {(): value} if value else {}

    def _as_array(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        if hasattr(other, "aval"):  # a tracer's own operators take over
            return NotImplemented
        return function(self.__jax_array__(), other)

    # -- comparison ----------------------------------------------------------------------------------------------------

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        if isinstance(other, DimExpr):
            return self._hash == other._hash and self.scope is other.scope and self.terms == other.terms
        return False

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, ">=", 0)

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, ">", 1)

    def __le__(self, other: Any) -> bool:
        return not self._compare(other, "<=", 1)

    def __lt__(self, other: Any) -> bool:
        return not self._compare(other, "<", 0)

    def _compare(self, other: Any, sign: str, least: int) -> bool:
        """Whether self - other is at least `least`."""
        if isinstance(other, float) and math.isinf(other):
            return other < 0
        low, high = bounds(self - other)
        if low >= least:
            return True
        if high < least:
            return False
        raise _inconclusive(f"Symbolic dimension comparison '{self}' {sign} '{other}' is inconclusive.")


def variables_of(value: Dimension) -> frozenset[str]:
    """The names of the variables in a dimension."""
    return value.variables if isinstance(value, DimExpr) else frozenset()


def is_symbolic_dim(p: Any) -> bool:
    """Whether a dimension is an expression rather than an int."""
    return isinstance(p, DimExpr)


def is_symbolic(shape: Iterable[Any]) -> bool:
    """Whether a shape has such a dimension."""
    return any(isinstance(d, DimExpr) for d in shape)


def may_fit(shape: Sequence[Dimension], expected: Sequence[Dimension]) -> bool:
    """Whether a shape has the rank and the ints of an expected one."""
    return len(shape) == len(expected) and all(is_symbolic_dim(b) or a == b for a, b in zip(shape, expected))


def scope_of(shapes: Iterable[Iterable[Any]]) -> SymbolicScope:
    """The scope of the dimensions in shapes; an empty one where all are ints."""
    return next((d.scope for shape in shapes for d in shape if isinstance(d, DimExpr)), SymbolicScope())


def as_dimension(value: Any) -> Dimension:
    """An entry of a shape as it is kept: an int or a DimExpr; TypeError for what is neither."""
    return value if isinstance(value, DimExpr) else operator.index(value)


def max_dim(left: Dimension, right: Dimension) -> Dimension:
    """The greater dimension, as an expression where it depends on the variables."""
    return _choose("max", left, right)


def min_dim(left: Dimension, right: Dimension) -> Dimension:
    """The smaller dimension, as an expression where it depends on the variables."""
    return _choose("min", left, right)


def _choose(name: str, left: Dimension, right: Dimension) -> Dimension:
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right) if name == "max" else min(left, right)
    low, high = bounds(left - right)
    if low >= 0 or high <= 0:
        return left if (low >= 0) == (name == "max") else right
    return _operation(name, left, right)


def _inconclusive(message: str) -> InconclusiveDimensionOperation:
    return InconclusiveDimensionOperation(
        f"{message}\nThe answer must be the same for all values of the dimension variables. Constraints may decide it: "
        "symbolic_shape(..., constraints=['b >= 2'])."
    )


def _check_scope(left: DimExpr, right: DimExpr) -> None:
    if left.scope is not right.scope:
        raise ValueError(
            f"Invalid mixing of symbolic scopes: '{left}' and '{right}' are of different calls of symbolic_shape; "
            "name all dimensions in one call, or pass one scope=SymbolicScope() to each"
        )


# ----------------------------------------------------------------------------------------------------------------------
# Normal forms.


def _make(terms: Mapping[Monomial, int], scope: SymbolicScope) -> Dimension:
    """The dimension with these terms: an int where nothing else is left."""
    kept = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    for monomial, (multiple, replacement) in scope.rewrites.items():
        for term, coefficient in kept.items():
            rest = _cancel(term, monomial)
            if rest is not None and coefficient % multiple == 0:
                others = _make({m: c for m, c in kept.items() if m != term}, scope)
                return others + _make({rest: coefficient // multiple}, scope) * replacement
    return DimExpr(kept, scope)


def _order(term: tuple[Monomial, int]) -> tuple[int, str]:
    """Terms of higher degree first, then by name; the constant last."""
    monomial, _ = term
    return -sum(power for _, power in monomial), str([(str(f), p) for f, p in monomial])


def _term_text(monomial: Monomial, coefficient: int) -> str:
    sign = "-" if coefficient < 0 else "+"
    factors = "*".join(f"{f}^{p}" if p > 1 else str(f) for f, p in monomial)
    size = abs(coefficient)
    return f"{sign} {factors if size == 1 and factors else size if not factors else f'{size}*{factors}'}"


def _multiply(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for factor, power in b:
        powers[factor] = powers.get(factor, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _is_variable(value: Dimension) -> bool:
    return isinstance(value, DimExpr) and list(value.terms.values()) == [1] and str(value) in value.variables


def _sum(values: Iterable[Any]) -> Any:
    values = list(values)
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _product(monomial: Monomial, values: Mapping[Any, Any]) -> Any:
    """The value of a monomial."""
    factors = [v for factor, power in monomial for v in [_factor_value(factor, values)] * power]
    return functools.reduce(operator.mul, factors) if factors else 1


def _factor_value(factor: Any, values: Mapping[Any, Any]) -> Any:
    if factor in values:
        return values[factor]
    if isinstance(factor, str):
        raise KeyError(factor)
    left, right = (d.evaluate(values) if isinstance(d, DimExpr) else d for d in factor[1:])
    return _FUNCTIONS[factor.name](left, right)


def _operation(name: str, left: Dimension, right: Dimension) -> Dimension:
    scope = left.scope if isinstance(left, DimExpr) else right.scope
    return _make({((Operation(name, left, right), 1),): 1}, scope)


def _floordiv(left: Dimension, right: Dimension) -> Dimension:
    quotient, rest = _divide(left, right)
    if isinstance(rest, int) and (rest == 0 or isinstance(right, int)):
        return quotient + (0 if rest == 0 else rest // right)
    return quotient + _operation("floordiv", rest, right)


def _mod(left: Dimension, right: Dimension) -> Dimension:
    _, rest = _divide(left, right)
    if isinstance(rest, int) and (rest == 0 or isinstance(right, int)):
        return 0 if rest == 0 else rest % right
    low, high = bounds(rest)
    if low >= 0 and bounds(right - rest)[0] >= 1:
        return rest
    return _operation("mod", rest, right)


def _divide(left: Dimension, right: Dimension) -> tuple[Dimension, Dimension]:
    """A quotient and a rest, left = quotient * right + rest: the terms of left that right's leading term divides."""
    if isinstance(right, int) and right == 0:
        raise ZeroDivisionError(f"division of the dimension {left} by zero")
    if isinstance(left, int):
        return 0, left
    divisor = {(): right} if isinstance(right, int) else right.terms
    (leading, factor), *_ = divisor.items()
    quotient: Dimension = 0
    rest: Dimension = left
    for monomial, coefficient in left.terms.items():
        reduced = _cancel(monomial, leading)
        if reduced is not None and coefficient % factor == 0:
            part = _make({reduced: coefficient // factor}, left.scope)
            quotient, rest = quotient + part, rest - part * right
    # With several terms in the divisor only an exact division is worth its rest.
    return (quotient, rest) if len(divisor) == 1 or rest == 0 else (0, left)


def _cancel(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    powers = dict(monomial)
    for factor, power in divisor:
        powers[factor] = powers.get(factor, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return tuple((factor, power) for factor, power in powers.items() if power)


# ----------------------------------------------------------------------------------------------------------------------
# Decisions.


def bounds(value: Dimension) -> Bounds:
    """A lower and an upper bound of a dimension, from its terms and from the constraints of its scope."""
    if not isinstance(value, DimExpr):
        return value, value
    low, high = _interval(value)
    for fact in value.scope.nonnegative:
        if not isinstance(fact, DimExpr):
            continue
        # value = k * fact + rest and fact >= 0: the rest bounds the value, for the k that cancels a term of it.
        for monomial, coefficient in fact.terms.items():
            if monomial and monomial in value.terms and value.terms[monomial] % coefficient == 0:
                k = value.terms[monomial] // coefficient
                rest = value - k * fact
                rest_low, rest_high = _interval(rest) if isinstance(rest, DimExpr) else (rest, rest)
                low, high = (max(low, rest_low), high) if k > 0 else (low, min(high, rest_high))
    for monomial, coefficient in value.terms.items():
        factor = monomial[0][0] if monomial else ""
        if isinstance(factor, Operation) and monomial == ((factor, 1),):
            rest = value - coefficient * _make({monomial: 1}, value.scope)
            for option_low, option_high in _alternatives(factor, coefficient, rest):
                low, high = max(low, option_low), min(high, option_high)
    return low, high


def _alternatives(factor: Operation, coefficient: int, rest: Dimension) -> Iterable[Bounds]:
    """Bounds of coefficient * factor + rest, with what the operation is known to be near to in its place."""
    _, left, right = factor
    if factor.name in ("max", "min"):  # max(l, r) is at least, min(l, r) at most each of the two
        for option in (left, right):
            low, high = bounds(rest + coefficient * option)
            yield (low, math.inf) if (factor.name == "max") == (coefficient > 0) else (-math.inf, high)
    elif factor.name == "floordiv" and isinstance(right, int) and right > 0 and coefficient % right == 0:
        k = coefficient // right  # right * floordiv(left, right) lies in [left - right + 1, left]
        low, high = bounds(rest + k * left)
        yield (low - k * (right - 1), high) if k > 0 else (low, high - k * (right - 1))


def _interval(value: DimExpr) -> Bounds:
    low: float = 0
    high: float = 0
    for monomial, coefficient in value.terms.items():
        term = (coefficient, coefficient)
        for factor, power in monomial:
            for _ in range(power):
                term = _times(term, _factor_bounds(factor, value.scope))  # type: ignore[assignment]
        low, high = low + term[0], high + term[1]
    return low, high


def _times(a: Bounds, b: Bounds) -> Bounds:
    products = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(products), max(products)


def _factor_bounds(factor: Any, scope: SymbolicScope) -> Bounds:
    if isinstance(factor, str):
        return _variable_bounds(factor, scope)
    (left_low, left_high), (right_low, right_high) = bounds(factor.left), bounds(factor.right)
    if factor.name == "max":
        return max(left_low, right_low), max(left_high, right_high)
    if factor.name == "min":
        return min(left_low, right_low), min(left_high, right_high)
    if factor.name == "mod":
        return (0, right_high - 1) if right_low > 0 else (right_low + 1, 0) if right_high < 0 else (-math.inf, math.inf)
    if right_low > 0:
        corners = [_quotient(a, b) for a in (left_low, left_high) for b in (right_low, right_high)]
        return min(corners), max(corners)
    return -math.inf, math.inf


def _quotient(left: float, right: float) -> float:
    """left // right for right > 0, both perhaps infinite."""
    if math.isinf(left):
        return left
    return left // right if right < math.inf else -1 if left < 0 else 0


def _variable_bounds(name: str, scope: SymbolicScope) -> Bounds:
    """Of a variable alone: at least 1, and what constraints of the form `k * name + constant >= 0` say."""
    low: float = 1
    high: float = math.inf
    monomial: Monomial = ((name, 1),)
    for fact in scope.nonnegative:
        if isinstance(fact, DimExpr) and fact.terms.keys() <= {monomial, ()} and monomial in fact.terms:
            k, constant = fact.terms[monomial], fact.terms.get((), 0)
            low, high = (max(low, -(constant // k)), high) if k > 0 else (low, min(high, constant // -k))
    return low, high


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": lambda a, b: max_dim(a, b) if isinstance(a, (int, DimExpr)) and isinstance(b, (int, DimExpr)) else a.max(b),
    "min": lambda a, b: min_dim(a, b) if isinstance(a, (int, DimExpr)) and isinstance(b, (int, DimExpr)) else a.min(b),
}

# ----------------------------------------------------------------------------------------------------------------------
# Text.


def parse_shape(text: str, scope: SymbolicScope, like: Sequence[Dimension] | None = None) -> tuple[Dimension, ...]:
    """The shape that a text such as "b, 2*b, _, ..." describes; "_" and "..." stand for dimensions of `like`.

    Raises:
        ValueError: the text is no shape, or has placeholders that `like` does not fill.
    """
    inner = text.strip()
    if inner.startswith("(") and inner.endswith(")") and _closes_at_end(inner):
        inner = inner[1:-1]
    parts = [part.strip() for part in _split(inner)]
    if parts and parts[-1] == "":
        parts.pop()
    if "..." in parts:
        place = parts.index("...")
        if like is None or parts.count("...") > 1:
            raise ValueError(f"symbolic shape {text!r}: '...' needs an array to take dimensions from, and stands once")
        parts[place : place + 1] = ["_"] * (len(like) - len(parts) + 1)
    if like is not None and len(parts) != len(like):
        raise ValueError(
            f"symbolic shape {text!r} has {len(parts)} dimensions, the array's shape {tuple(like)} {len(like)}"
        )
    return tuple(_parse_entry(part, i, text, scope, like) for i, part in enumerate(parts))


def _parse_entry(part: str, index: int, text: str, scope: SymbolicScope, like: Sequence[Dimension] | None) -> Dimension:
    if part == "_":
        if like is None:
            raise ValueError(f"symbolic shape {text!r}: '_' needs an array to take the dimension from")
        return like[index]
    try:
        found = parse_dimension(part, scope)
    except ValueError as error:
        raise ValueError(f"syntax error in symbolic shape {text!r} in dimension {index}: {error}") from None
    if like is not None and isinstance(found, int) and found != like[index]:
        raise ValueError(f"symbolic shape {text!r}: dimension {index} is {found}, that of the array is {like[index]}")
    return found


def _closes_at_end(text: str) -> bool:
    """Whether the parenthesis that opens a text closes at its end."""
    depth = list(itertools.accumulate((c == "(") - (c == ")") for c in text))
    return 0 not in depth[:-1]


def _split(text: str) -> list[str]:
    """The parts between commas outside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def parse_dimension(text: str, scope: SymbolicScope) -> Dimension:
    """The dimension that a text such as "2*b + max(c, 3)" describes; ValueError where it is none."""
    try:
        return _parse(ast.parse(text.strip().replace("^", "**"), mode="eval").body, scope)
    except SyntaxError:
        raise ValueError(f"cannot read {text!r}") from None


_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip


def _parse(node: Any, scope: SymbolicScope) -> Dimension:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return _make({((node.id, 1),): 1}, scope)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_parse(node.operand, scope)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_parse(node.left, scope), _parse(node.right, scope))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2 and not node.keywords:
        if node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*(_parse(argument, scope) for argument in node.args))
    raise ValueError(
        f"{ast.unparse(node)!r} is no dimension; there are names, integers, +, -, *, ^, floordiv, mod, max and min"
    )


# ----------------------------------------------------------------------------------------------------------------------
# Values of the variables.


class Source(NamedTuple):
    """Where the value of a variable comes from: (dimension `axis` of argument `argument` - offset) / factor."""

    name: str
    argument: int
    axis: int
    factor: int
    offset: Dimension


class Symbols(NamedTuple):
    """The dimension variables of a function's arguments, in an order in which each offset knows those before."""

    sources: tuple[Source, ...] = ()
    constraints: tuple[str, ...] = ()


def symbols_of(shapes: Sequence[Sequence[Dimension]]) -> Symbols:
    """How the variables in the shapes of arguments are found from the shapes that they have at run time.

    Raises:
        ValueError: there is no dimension that is linear in a variable, or the shapes are of several scopes.
    """
    symbolic = [(d, i, axis) for i, shape in enumerate(shapes) for axis, d in enumerate(shape) if is_symbolic_dim(d)]
    if not symbolic:
        return Symbols()
    for dimension, _, _ in symbolic:
        _check_scope(symbolic[0][0], dimension)
    names = frozenset().union(*(d.variables for d, _, _ in symbolic))
    found: dict[str, Source] = {}
    while True:
        new = [s for d, i, axis in symbolic if (s := _source(d, i, axis, found)) is not None]
        if not new:
            break
        found[new[0].name] = new[0]
    if names - found.keys():
        missing, all_shapes = sorted(names - found.keys()), ", ".join(str(tuple(s)) for s in shapes if is_symbolic(s))
        raise ValueError(
            f"Cannot solve for values of dimension variables {{{', '.join(map(repr, missing))}}} from the arguments' "
            f"shapes {all_shapes}: each must appear in a dimension that is linear in it, such as b or 2*b + 1"
        )
    checks = [text for text, variables in symbolic[0][0].scope.checks if variables <= found.keys()]
    return Symbols(tuple(found.values()), tuple(checks))


def _source(dimension: DimExpr, argument: int, axis: int, known: Mapping[str, Source]) -> Source | None:
    unknown = dimension.variables - known.keys()
    if len(unknown) != 1:
        return None
    (name,) = unknown
    monomial: Monomial = ((name, 1),)
    offset = dimension - dimension.terms.get(monomial, 0) * _make({monomial: 1}, dimension.scope)
    if monomial not in dimension.terms or (isinstance(offset, DimExpr) and name in offset.variables):
        return None
    return Source(name, argument, axis, dimension.terms[monomial], offset)


def values_of(expected: Sequence[Sequence[Dimension]], shapes: Sequence[Sequence[Dimension]]) -> dict[str, Dimension]:
    """The values of the variables in `expected` for arguments of these shapes.

    Raises:
        ValueError: the shapes do not fit, or the constraints do not hold.
    """
    symbols = symbols_of(expected)
    specification = ", ".join(str(tuple(shape)) for shape in expected if is_symbolic(shape))
    values: dict[str, Dimension] = {}
    for name, argument, axis, factor, offset in symbols.sources:
        rest = shapes[argument][axis] - _value(offset, values)
        values[name] = rest // factor
        if rest % factor != 0 or values[name] < 1:
            raise ValueError(
                f"Input shapes do not match the symbolic shapes {specification}: dimension {axis} of argument "
                f"{argument} is {shapes[argument][axis]}, which is '{expected[argument][axis]}' for no integer "
                f"'{name}' >= 1"
            )
    found = ", ".join(f"'{name}' = {value}" for name, value in values.items())
    for i, (wanted, given) in enumerate(zip(expected, shapes)):
        for axis, (dimension, size) in enumerate(zip(wanted, given, strict=True)):
            if _value(dimension, values) != size:
                raise ValueError(
                    f"Input shapes do not match the symbolic shapes {specification}: dimension {axis} of argument {i} "
                    f"is {size}, and '{dimension}' is {_value(dimension, values)} with {found}"
                )
    for text in symbols.constraints:
        if not _holds(text, values):
            raise ValueError(f"Input shapes do not match the symbolic shape constraint {text}, with {found}")
    return values


def _value(dimension: Dimension, values: Mapping[str, Dimension]) -> Dimension:
    return dimension.evaluate(values) if isinstance(dimension, DimExpr) else dimension


def _holds(constraint: str, values: Mapping[str, Dimension]) -> bool:
    sign = next(sign for sign in _RELATIONS if sign in constraint)
    left, right = (_value(parse_dimension(part, SymbolicScope()), values) for part in constraint.split(sign, 1))
    return _RELATIONS[sign](left, right)
