"""Commands that read what the host has waited for wait for all else, too."""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from veery_lowering.passes.stream.awaits import wait_for_all

# What is there at %there is read on the host, and then by a command that waits for %other.
COMMANDS = """
util.func public @f(%there: !stream.timepoint, %other: !stream.timepoint, %x: !stream.resource<staging>,
    %y: !stream.resource<transient>, %first: i1) -> (!stream.timepoint, i32) {{
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %0 = stream.timepoint.await %there => %x : !stream.resource<staging>{{%c128}}
  %read = stream.resource.subview %0[%c64] : !stream.resource<staging>{{%c128}} -> !stream.resource<staging>{{%c64}}
  %also = stream.resource.subview %0[%c0] : !stream.resource<staging>{{%c128}} -> !stream.resource<staging>{{%c64}}
  %either = arith.select %first, %read, %also : !stream.resource<staging>
  %n = stream.resource.load %0[%c0] : !stream.resource<staging>{{%c128}} -> i32
  %1 = stream.cmd.execute {waits} with({given} as %a: !stream.resource<staging>{{%c64}},
      %y as %b: !stream.resource<transient>{{%c64}}) {{
    stream.cmd.copy %a[%c0], %b[%c0], %c64 : !stream.resource<staging>{{%c64}} -> !stream.resource<transient>{{%c64}}
  }} => !stream.timepoint
  util.return %1, %n : !stream.timepoint, i32
}}"""


def waited_for(given: str, waits: str, mended: bool) -> set[str]:
    """What the command waits for once it is simplified: the arguments of the function."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(COMMANDS.format(given=given, waits=waits))
        if mended:
            wait_for_all(module)
        PassManager.parse("builtin.module(util.func(canonicalize,cse))").run(module.operation)
        (function,) = module.body.operations
        names = dict(zip(function.regions[0].blocks[0].arguments, ("there", "other", "x", "y", "first")))
        (command,) = (op for op in function.regions[0].blocks[0].operations if op.name == "stream.cmd.execute")
        until = command.operands[len(command.operands) - 1]
        return {names[x] for x in ([until] if until in names else until.owner.operands)}


def test_what_is_read_and_waited_for() -> None:
    for given in ("%read", "%either"):
        assert waited_for(given, "await(%other) =>", mended=True) == {"there", "other"}
    assert waited_for("%read", "", mended=True) == {"there"}
    assert waited_for("%x", "await(%other) =>", mended=True) == {"other"}


def test_iree_forgets_what_is_waited_for() -> None:
    assert waited_for("%read", "await(%other) =>", mended=False) == {"there"}
