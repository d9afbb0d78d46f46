"""Symbolic dimensions: arithmetic, decisions, text, and the values that variables get."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, strategies as st

from veery._core.dimensions import (
    DimExpr,
    SymbolicScope,
    bounds,
    max_dim,
    min_dim,
    parse_dimension,
    parse_shape,
    symbols_of,
    values_of,
)
from veery._core.errors import InconclusiveDimensionOperation

SCOPE = SymbolicScope()
B, C = parse_shape("b, c", SCOPE)
OPERATIONS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "max": max_dim, "min": min_dim,
}  # fmt: skip


def expressions():
    """Trees of operations over b, c and small integers."""
    leaves = st.sampled_from([B, C, -2, 0, 1, 2, 3])
    return st.recursive(leaves, lambda inner: st.tuples(st.sampled_from(list(OPERATIONS)), inner, inner), max_leaves=6)


def build(tree, b, c):
    """The tree with values for the variables; None where it divides by what may be zero."""
    if not isinstance(tree, tuple):
        return b if tree is B else c if tree is C else tree
    name, left, right = tree[0], build(tree[1], b, c), build(tree[2], b, c)
    if left is None or right is None or (name in ("//", "%") and bounds(build(tree[2], B, C))[0] < 1):
        return None
    return OPERATIONS[name](left, right)


@given(expressions(), st.integers(1, 50), st.integers(1, 50))
def test_expressions_are_what_they_evaluate_to(tree, b, c):
    symbolic, number = build(tree, B, C), build(tree, b, c)
    if symbolic is None or number is None:
        return
    values = {"b": b, "c": c}
    if isinstance(symbolic, int):
        assert symbolic == number
        return
    assert symbolic.evaluate(values) == number
    low, high = bounds(symbolic)
    assert low <= number <= high
    assert parse_dimension(str(symbolic), SCOPE) == symbolic
    assert symbolic.evaluate({"b": B, "c": C}) == symbolic


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2*b//2", "b"), ("(2*b + 4)//2", "b + 2"), ("(2*b + 3)//2", "b + 1"), ("4*b % 2", "0"), ("b*c//b", "c"),
        ("b - b", "0"), ("b//b", "1"), ("1 - b", "- b + 1"), ("b*b", "b^2"), ("b//2", "floordiv(b, 2)"),
        ("max(b, 1)", "b"), ("max(b, 3)", "max(b, 3)"), ("min(b, b + c)", "b"), ("b % (b + 1)", "b"),
        ("(b + 1)*(b - 1)", "b^2 - 1"), ("b^2*c//(b*c)", "b"), ("mod(b, 2)", "mod(b, 2)"), ("c + b", "b + c"),
    ],
)  # fmt: skip
def test_normal_form(text, expected):
    assert str(parse_dimension(text, SCOPE)) == expected


@pytest.mark.parametrize(
    "constraints, relation, expected",
    [
        ([], lambda b, c: b >= 1, True), ([], lambda b, c: b < 1, False), ([], lambda b, c: 2 * b > b, True),
        ([], lambda b, c: b == c, False), ([], lambda b, c: b > 1, None),
        ([], lambda b, c: b >= c, None), ([], lambda b, c: b - min_dim(b, 2) >= 0, True),
        (["b >= 3"], lambda b, c: b > 2, True), (["b >= 3"], lambda b, c: b == 2, False),
        (["b <= 10"], lambda b, c: b < 11, True), (["b <= 2*c"], lambda b, c: 2 * c >= b, True),
        (["b <= 2*c"], lambda b, c: 2 * c > b, None), (["mod(b, 4) == 0"], lambda b, c: b % 4 == 0, True),
        (["b == 2*c"], lambda b, c: b // 2 == c, True), ([], lambda b, c: -(-b // 2) >= 1, True),
        ([], lambda b, c: 2 * (-(-b // 2)) - 1 <= b, True), ([], lambda b, c: b // 3 * 3 <= b, True),
        (["b >= c"], lambda b, c: 3 * b + 1 > 3 * c, True),
    ],
)  # fmt: skip
def test_decisions(constraints, relation, expected):
    b, c = parse_shape("b, c", SymbolicScope(constraints))
    if expected is None:
        with pytest.raises(InconclusiveDimensionOperation, match="is inconclusive"):
            relation(b, c)
    else:
        assert relation(b, c) is expected


def test_a_dimension_is_no_number():
    for convert in (int, float):
        with pytest.raises(InconclusiveDimensionOperation, match="'b' used in a context that requires a constant"):
            convert(B)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        range(B)
    with pytest.raises(NotImplementedError, match="'b' has a value only in functions that are traced"):
        B / 2
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        B + parse_shape("b", SymbolicScope())[0]
    assert hash(B) == hash(parse_shape("b", SCOPE)[0]) and parse_shape("b", SymbolicScope())[0] != B
    assert {B: 1}[parse_dimension("b", SCOPE)] == 1


def test_shapes_as_text():
    assert parse_shape("(b, 3)", SCOPE) == (B, 3) == parse_shape(" b ,3,", SCOPE)
    assert parse_shape("", SCOPE) == ()
    assert parse_shape("b, _, ...", SCOPE, (7, 5, 4, 3)) == (B, 5, 4, 3)
    assert parse_shape("..., max(b, 3)", SCOPE, (2, 9)) == (2, max_dim(B, 3))


@pytest.mark.parametrize(
    "text, like, message",
    [
        ("x y", None, "syntax error in symbolic shape 'x y' in dimension 0: cannot read 'x y'"),
        ("b, 2.5", None, r"in dimension 1: '2.5' is no dimension; there are names"),
        ("f(b, 2)", None, r"'f\(b, 2\)' is no dimension"),
        ("b, ...", None, "'...' needs an array"),
        ("_", None, "'_' needs an array"),
        ("b, c", (3,), r"has 2 dimensions, the array's shape \(3,\) 1"),
        ("b, 4", (2, 3), "dimension 1 is 4, that of the array is 3"),
    ],
)
def test_no_shapes(text, like, message):
    with pytest.raises(ValueError, match=message):
        parse_shape(text, SCOPE, like)


@pytest.mark.parametrize(
    "constraint, given, expected",
    [
        ("a*b == c + d", "2*b*a", "2*c + 2*d"),
        ("a*b == c + d", "a*b*b", "b*c + b*d"),
        ("a*a == b", "a*a*a", "a*b"),
        ("2*a*b == 8", "4*a*b + a", "a + 16"),
        ("2*b == 4", "3*b", "3*b"),
        ("a == 2*b", "a*a", "4*b^2"),
        ("mod(a, 4) == 0", "2*mod(a, 4) + 1", "1"),
    ],
)
def test_equalities_rewrite(constraint, given, expected):
    assert str(parse_dimension(given, SymbolicScope([constraint]))) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("b > 3", "must contain one of"),
        ("b + c == 4", "the left side must be one term"),
        ("4 == b", "the left side must be one term"),
        ("b*c == 2*b*c", "the right side must not hold the left one"),
    ],
)
def test_no_constraints(text, message):
    with pytest.raises(ValueError, match=message):
        SymbolicScope([text])


def test_values_of_variables():
    assert values_of([(2 * B + 1, 3), (C + B,)], [(9, 3), (10,)]) == {"b": 4, "c": 6}
    assert values_of([(B, B * C), (C,)], [(2, 6), (3,)]) == {"b": 2, "c": 3}
    assert values_of([(3,)], [(3,)]) == {}
    with pytest.raises(ValueError, match="Cannot solve for values of dimension variables {'b', 'c'}"):
        symbols_of([(B * C,)])
    with pytest.raises(ValueError, match=r"is 6, which is '2\*b \+ 1' for no integer 'b' >= 1"):
        values_of([(2 * B + 1,)], [(6,)])
    with pytest.raises(ValueError, match=r"dimension 0 of argument 1 is 7, and '2\*b' is 8 with 'b' = 4"):
        values_of([(B,), (2 * B,)], [(4,), (7,)])
    b, c = parse_shape("b, c", SymbolicScope(["b >= 3", "mod(c, 4) == 0", "d >= 1"]))
    assert isinstance(b, DimExpr) and values_of([(b,), (c,)], [(3,), (8,)]) == {"b": 3, "c": 8}
    with pytest.raises(ValueError, match="constraint b >= 3, with 'b' = 2"):
        values_of([(b,), (c,)], [(2,), (8,)])
    with pytest.raises(ValueError, match=r"constraint mod\(c, 4\) == 0"):
        values_of([(b,), (c,)], [(3,), (7,)])
