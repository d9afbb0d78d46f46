"""The `veery` command on real files, in processes of its own: output, files, exit codes, errors of one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ARGS = ("--args", "{w: f32[5,3], b: f32[3]}, f32[2,5]")


def ok(result):
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout  # plain when piped
    return result.stdout


def test_inspect_shows_the_stages(veery, process):
    assert "dot_general" in ok(veery("inspect", "model.py:layer", *ARGS))
    text = ok(veery("inspect", "model.py:loss", *ARGS, "--grad", "--stage", "stablehlo", "--annotate"))
    assert '// model.py:6  y = lax.dot_general(x, params["w"]' in text and "loc(" not in text
    text = ok(process("inspect", "model.py:layer", *ARGS, "--stage", "flow", "--annotate"))
    assert "flow.dispatch @veery_product_0" in text and "// model.py:6" in text
    assert "vmap" not in ok(veery("inspect", "model:double", "--args", "f32[4]", "--vmap", "--jit"))


def test_inspect_shows_code(veery, tmp_path):
    double = ("inspect", "model.py:double", "--args", "f32[64]")
    ok(veery(*double, "--stage", "asm", "--target", "cpu:generic", "-o", "a.s"))
    assert ".text" in (tmp_path / "a.s").read_text()
    assert ".target sm_80" in ok(veery(*double, "--stage", "ptx"))


def test_inspect_tells_kernels_from_dispatches_and_why(veery):
    turns = ("inspect", "model.py:turns", "--args", "f32[8], f32[8,8]", "--stage", "kernels")
    lines = ok(veery(*turns)).splitlines()
    kernel, reason = (next(line for line in lines if line.startswith(start)) for start in ("veery_loop_0", "loop "))
    assert "veery, in buffers" in kernel and "288 B" in kernel and "model.py:20  return lax.fori_loop" in kernel
    assert "model.py:19  hosted" in reason and reason.endswith("no kernel of this form holds func.call")
    found = json.loads(ok(veery(*turns, "--json")))
    assert [(p["by"], p["loops"]) for p in found["pieces"]] == [("host", 1), ("IREE", 1), ("veery, in buffers", 0)]
    assert found["pieces"][1]["reads"] == 32 and [d["kind"] for d in found["left"]] == ["loop"]
    for target in ("vulkan", "cuda:sm_89"):
        assert "veery, in one invocation" in ok(veery(*turns, "--target", target))


def test_statistics_and_differences(veery):
    found = json.loads(ok(veery("inspect", "model.py:layer", *ARGS, "--stats", "--json")))
    product = {"count": 1, "flops": 60, "transcendentals": 0, "bytes": 4 * (10 + 15 + 6)}
    assert found["operations"]["dot_general"] == product
    assert found["dispatches"] == 1 and found["argument_bytes"] == 4 * (15 + 3 + 10) and found["queue"] == "inline"
    text = ok(veery("inspect", "model.py:layer", *ARGS, "--diff", "model.py:layer", "model.py:loss"))
    assert "+++ model.py:loss" in text and "reduce_sum" in text


def test_compile_inspect_run(veery, process, tmp_path):
    targets = ("--target", "cpu:generic", "--target", "cuda:sm_89")
    ok(process("compile", "model.py:double", "--args", "f32[3]", *targets, "-o", "d.vmfb"))
    text = ok(veery("inspect", "d.vmfb"))
    assert "double(x: f32[3]) -> {y: f32[3]}" in text and "cuda:sm_89" in text and "_dispatch_0_" in text
    found = json.loads(ok(veery("inspect", "d.vmfb", "--json")))
    assert [t["target"] for t in found["functions"][0]["targets"]] == ["cpu:generic", "cuda:sm_89"]
    np.save(tmp_path / "x.npy", np.float32([1, 2, 3]))
    ok(process("run", "d.vmfb", "--input", "x=@x.npy", "--output", "out.npz"))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["result['y']"], [2, 4, 6])
    assert json.loads(ok(veery("run", "d.vmfb", "--input", "3xf32=1 2 3", "--json"))) == {"result['y']": [2, 4, 6]}
    ok(veery("compile", "model.py:double", "--args", "f32[3]", "--target", "cpu:aarch64-linux", "-o", "a.vmfb"))
    other = veery("run", "a.vmfb", "--input", "3xf32=1")
    assert other.returncode == 3 and "compiled for aarch64, this CPU is" in other.stderr
    device = veery("run", "d.vmfb", "--input", "3xf32=1", "--device", "cuda")
    assert device.returncode == 3 and "no cuda device" in device.stderr and device.stderr.count("\n") <= 2


def test_symbolic_arguments(veery):
    args = ("--args", "{w: f32[5,3], b: f32[3]}, f32[2*n,5]")
    assert "f32[2*n,3]" in ok(veery("inspect", "model.py:layer", *args))
    assert "n" in json.loads(ok(veery("inspect", "model.py:layer", *args, "--stats", "--json")))["result_bytes"]
    text = ok(veery("compile", "model.py:layer", *args, "-o", "l.vmfb"))
    assert "x: f32[2*n,5]) -> f32[2*n,3]" in text
    parts = ("--input", "params['w']=5x3xf32=0", "--input", "params['b']=3xf32=0")
    for rows in (2, 4):
        out = json.loads(ok(veery("run", "l.vmfb", *parts, "--input", f"x={rows}x5xf32=1", "--json")))
        assert out == {"result": [[0.0] * 3] * rows}
    wrong = veery("run", "l.vmfb", *parts, "--input", "x=3x5xf32=1")
    assert wrong.returncode == 2 and "dimension 0 of x is 3, which is '2*n' for no integer n >= 1" in wrong.stderr
    wrong = veery("bench", "model.py:layer", *args)
    assert wrong.returncode == 2 and "symbolic" in wrong.stderr


def test_stablehlo_files(veery, tmp_path):
    text = ok(veery("inspect", "model.py:double", "--args", "f32[3]", "--stage", "stablehlo"))
    (tmp_path / "m.mlir").write_text(text)
    assert "stablehlo.multiply" in ok(veery("inspect", "m.mlir"))
    assert "flow.dispatch" in ok(veery("inspect", "m.mlir", "--stage", "flow"))
    # Keys are 64 bits wide in modules, also in those of programs that have no such types.
    body = "%r = stablehlo.add %k, %k : tensor<4xui64> return %r : tensor<4xui64>"
    (tmp_path / "wide.mlir").write_text(f"func.func @main(%k: tensor<4xui64>) -> tensor<4xui64> {{ {body} }}")
    assert "flow.dispatch" in ok(veery("inspect", "wide.mlir", "--stage", "flow"))


def test_measurements(veery, process):
    found = json.loads(ok(veery("bench", "model.py:double", "--args", "f32[3]", "--repeats", "5", "--json")))
    assert found["results"][0]["median"] > 0 and found["results"][0]["relative"] == 1
    first = json.loads(ok(process("bench", "model.py:loss", *ARGS, "--grad", "--first-call", "--json")))["results"]
    assert [row["state"] for row in first] == ["nothing known", "program on disk"]
    assert all(row["first"] > row["later"] > 0 for row in first) and first[0]["first"] > first[1]["first"]
    refused = veery("bench", "model.py:double", "--args", "f32[3]", "--first-call", "--target", "cpu")
    assert refused.returncode == 2 and "without --target" in refused.stderr
    failed = veery("bench", "model.py:none", "--args", "f32[3]", "--first-call")
    assert failed.returncode == 2 and "has no function 'none'" in failed.stderr
    found = json.loads(ok(process("profile", "model.py:loss", *ARGS, "--json")))
    assert any("model.py:" in d["source"] for d in found["dispatches"])


WRONG = """
from veery import _dispatch
from veery.extend import core
from veery.interpreters import mlir

off_p = core.Primitive("off")
off_p.def_abstract_eval(lambda x: x)
off_p.reference = lambda x: x
mlir.register_lowering(off_p, lambda ctx, x: [_dispatch.lowering_module("stablehlo").add(x, x)])


def wrong(x):
    return off_p.bind(x + 1)
"""


def test_verification(veery, folder):
    assert "undetermined" in ok(veery("verify", "model.py:layer", *ARGS))
    found = json.loads(ok(veery("verify", "model.py:loss", *ARGS, "--grad", "--json")))
    assert found["ok"] and found["programs"][0]["elements"] == 18 and found["programs"][0]["undetermined"] == 0
    (folder / "wrong.py").write_text(WRONG)
    told = veery("verify", "wrong.py:wrong", "--args", "f32[4]")
    assert told.returncode == 1 and "off at " in told.stdout and "wrong.py:13" in told.stdout
    assert len(list(folder.glob("veery_differs_wrong_*.py"))) == 1
    assert veery("verify", "model.py:double", "--args", "f32[2]", "--device", "abacus").returncode == 3
    told = veery("verify", "model.py:double", "--args", "f32[2]", "--beside", "abacus")
    assert told.returncode == 3 and "Unknown backend abacus" in told.stderr


def test_reports(veery, process):
    # In processes of their own: they open every driver, and Mesa's polls on two cores from then on.
    assert ok(process("devices")).splitlines()[1].startswith("cpu")
    assert json.loads(ok(process("doctor", "--json")))["test"]["ok"]
    assert json.loads(ok(veery("cache", "info", "--json")))["entries"] >= 0
    for command in ((), ("inspect",), ("run",)):
        assert "Examples:" in ok(veery(*command, "--help"))


BAD = [
    (
        ("inspect", "model.py:nothing"),
        2,
        "model.py has no function 'nothing'; it has layer, loss, double, turns, broken",
    ),
    (("inspect", "absent.py:f"), 2, "there is no file absent.py"),
    (("inspect", "no_such_module:f"), 2, "there is no module 'no_such_module'"),
    (("inspect", "model.py"), 2, "names no function; write file.py:function"),
    (("inspect", "model.py:double", "--args", "f33[2]"), 2, "'f33' is no dtype at column 1"),
    (("inspect", "model.py:double", "--args", "f32[2"), 2, "expected ] at column 6"),
    (("inspect", "model.py:double", "--args", "f32[2,b*]"), 2, "cannot read 'b*' at column 4"),
    (("inspect", "absent.vmfb"), 2, "there is no file absent.vmfb"),
    (("inspect", "model.py:double"), 1, "missing 1 required positional argument"),
    (("inspect", "model.py:broken", "--args", "f32[2]"), 1, "has no attribute 'nothing'"),
    (("inspect", "model.py:double", "--args", "f32[2]", "--stage", "flow", "--target", "npu"), 2, "target 'npu'"),
    (("inspect", "model.py:double", "--stage", "nothing"), 2, "'nothing' is not one of"),
    (("inspect", "model.py:double", "--args", "f32[2]", "--stage", "ptx", "--target", "cpu"), 2, "has no ptx code"),
    (("inspect", "cut.mlir"), 2, "cut.mlir: not a StableHLO module"),
    (("compile", "model.py:double", "--args", "f32[2]", "-o", "none/d.vmfb"), 2, "there is no folder none to write"),
    (("run", "absent.vmfb"), 2, "there is no file absent.vmfb"),
    (("run", "model.py"), 2, "model.py is not a veery artifact"),
    (("frobnicate",), 2, "No such command 'frobnicate'"),
]


@pytest.mark.parametrize("arguments, code, message", BAD, ids=[" ".join(b[0]) for b in BAD])
def test_bad_input_is_told_in_a_line(arguments, code, message, veery):
    Path("cut.mlir").write_text("module {")
    told = veery(*arguments)
    assert (told.returncode, told.stdout) == (code, "")
    assert message in told.stderr and told.stderr.count("\n") <= 2 and "Traceback" not in told.stderr


def test_errors_of_the_process(process):
    result = process("inspect", "absent.py:f")
    assert result.returncode == 2 and result.stderr == "veery: error: there is no file absent.py\n"


def test_wrong_inputs_of_run(veery):
    ok(veery("compile", "model.py:double", "--args", "f32[3]", "-o", "d.vmfb"))
    for given, message in [
        ("y=3xf32=1", "the function has no argument 'y'; it takes x"),
        ("4xf32=1", "argument x must be f32[3], got f32[4]"),
        ("x=@none.npy", "there is no file none.npy"),
        ("3xf32=a", "'a' is no number"),
    ]:
        result = veery("run", "d.vmfb", "--input", given)
        assert result.returncode == 2 and message in result.stderr, result.stderr
    assert "Traceback" in veery("--verbose", "run", "d.vmfb", "--input", "4xf32=1").stderr
