"""The module: names, locations, constants, host calls, signature."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.jaxpr_graphs import Graph, Literal

import veery_lowering
from veery_lowering.emit.registry import _rules, rule


def test_text_is_readable() -> None:
    g = Graph(((2, 3), np.float32), ((3,), np.float32))
    x, w = g.invars
    wide = g.op("broadcast_in_dim", w, out=(2, 3), shape=(2, 3), broadcast_dimensions=(1,))
    half = g.op("broadcast_in_dim", Literal(0.5, np.float32), out=(2, 3), shape=(2, 3), broadcast_dimensions=())
    (out,) = g.ops("add", [g.op("mul", x, wide), half], [((2, 3), np.float32)], line=("model.py", 12))
    closed = g.closed(out)
    closed.jaxpr.debug_info.arg_names = ("x", "params['w']")
    lowered = veery_lowering.lower(closed, name="predict")
    text = lowered.as_text()
    assert "module @predict" in text and "func.func public @main(%x: tensor<2x3xf32>" in text
    assert text.count("stablehlo.constant") == 1 and "dense<5.000000e-01> : tensor<2x3xf32>" in text
    assert "loc(" not in text and 'model.py":12' in lowered.as_text(debug_info=True)


def test_program_is_plain_data() -> None:
    g = Graph(((2, 3), np.float32), ((), np.bool_))
    program = veery_lowering.compile(g.closed(g.invars[0]), name="f", donated=(True, False))
    assert program.inputs == (((2, 3), "float32"), ((), "bool")) and program.outputs == (((2, 3), "float32"),)
    assert (program.name, program.entry, program.target, program.backend) == ("f", "main", "cpu", "cpu")
    assert program.donated == (True, False) and not program.blocking and program.host_calls == ()
    assert program.metadata["iree"] and "avx" in program.metadata["cpu_features"] or "asimd" in str(program.metadata)


def test_host_calls_share_imports_by_signature() -> None:
    def function(x: np.ndarray) -> list[np.ndarray]:
        return [x + 1]

    _rules.pop(("test_host", None), None)
    rule("test_host")(lambda ctx, x: ctx.host_call(function, [x], ctx.avals_out))
    g = Graph()
    x, y = g.input(np.ones(3, np.float32)), g.input(np.ones(4, np.float32))
    g.check("once", g.op("test_host", x), np.full(3, 2, np.float32))
    g.check("twice", g.op("test_host", g.op("test_host", x)), np.full(3, 3, np.float32))
    g.check("another", g.op("test_host", y), np.full(4, 2, np.float32))
    program = veery_lowering.compile(g.closed())
    assert [call.symbol for call in program.host_calls] == ["cb0", "cb1"]
    assert program.host_calls[1].inputs == (((4,), "float32"),) and program.host_calls[1].pure
    g.run()


def test_rule_of_wrong_type_is_told() -> None:
    _rules.pop(("test_wrong", None), None)
    rule("test_wrong")(lambda ctx, x: x)
    g = Graph(((3,), np.float32))
    g.outvars.append(g.op("test_wrong", g.invars[0], out=(4,)))
    with pytest.raises(AssertionError, match=r"test_wrong: lowered to \(tensor<3xf32>\), not \(tensor<4xf32>\)"):
        g.text()


def test_registering_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="'add' has a lowering rule for target any already"):
        veery_lowering.emit.registry.lookup("add", "cpu")
        rule("add")(lambda ctx, x, y: x)


def test_arguments_may_be_returned_unused_or_twice() -> None:
    g = Graph()
    x = g.input(np.ones(3, np.float32))
    g.input(np.zeros(2, np.int32))
    g.check("first", x, np.ones(3, np.float32))
    g.check("second", x, np.ones(3, np.float32))
    g.check("constant", g.const(np.arange(4)), np.arange(4))
    g.run()


def test_lowering_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bindings look for a module of a dialect whenever they hand out an operation, as long as there is none."""
    sought: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            sought.append(name)

    g = Graph()
    x = g.input(np.ones(3, np.float32))
    g.outvars.append(g.op("sin", x))
    veery_lowering.lower(g.closed())
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    veery_lowering.lower(g.closed())
    assert not sought
