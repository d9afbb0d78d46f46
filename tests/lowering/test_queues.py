"""Programs for GPUs: all their work on one queue, recorded for each call, and nothing freed that is not their own."""

from __future__ import annotations

import re

from veery_lowering.mlir import context, ir
from veery_lowering.passes.vm.queues import free_no_parts, keep_to_first_queue, record_anew, wait_for_no_memory

MODULE = """
vm.module public @program {
  vm.import private @hal.command_buffer.create(%d: !vm.ref<!hal.device>, %m: i32, %c: i32, %affinity: i64, %n: i32)
    -> !vm.ref<!hal.command_buffer>
  vm.import private @hal.device.queue.barrier(%d: !vm.ref<!hal.device>, %affinity: i64, %w: !vm.ref<!hal.fence>,
    %s: !vm.ref<!hal.fence>, %f: i64)
  vm.func @main(%d: !vm.ref<!hal.device>, %f: !vm.ref<!hal.fence>) {
    %any = vm.const.i64 -1
    %zero = vm.const.i32.zero
    %both = vm.const.i32 17
    %c = vm.call @hal.command_buffer.create(%d, %zero, %zero, %any, %zero)
      : (!vm.ref<!hal.device>, i32, i32, i64, i32) -> !vm.ref<!hal.command_buffer>
    %inline = vm.call @hal.command_buffer.create(%d, %both, %zero, %any, %zero)
      : (!vm.ref<!hal.device>, i32, i32, i64, i32) -> !vm.ref<!hal.command_buffer>
    vm.call @hal.device.queue.barrier(%d, %any, %f, %f, %any)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, i64) -> ()
    vm.return
  }
}
"""


FREEING = """
vm.module public @program {
  vm.import private @hal.device.queue.dealloca(%d: !vm.ref<!hal.device>, %affinity: i64, %w: !vm.ref<!hal.fence>,
    %s: !vm.ref<!hal.fence>, %b: !vm.ref<!hal.buffer>, %f: i64)
  vm.func @main(%d: !vm.ref<!hal.device>, %w: !vm.ref<!hal.fence>, %s: !vm.ref<!hal.fence>, %b: !vm.ref<!hal.buffer>) {
    %any = vm.const.i64 -1
    %own = vm.const.i64.zero
    %origin = vm.const.i64 1
    vm.call @hal.device.queue.dealloca(%d, %any, %w, %w, %b, %own)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, !vm.ref<!hal.buffer>, i64) -> ()
    vm.call @hal.device.queue.dealloca(%d, %any, %w, %s, %b, %origin)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, !vm.ref<!hal.buffer>, i64) -> ()
    vm.return
  }
}
"""


def _changed(change, source=MODULE):
    """The arguments of the calls: of `MODULE`, those that record, twice, and of the one that submits."""
    with context():
        module = ir.Module.parse(source)
        assert change(module)
        assert module.operation.verify()
        text = module.operation.get_asm(assume_verified=True)
    text = re.sub(r"(%c-?\d+|%zero)_\d+", r"\1", text)  # constants are numbered apart
    return re.findall(r"vm.call @hal[.\w]+\(([^)]*)\)", text)


def test_work_for_any_queue_goes_to_the_first():
    record, _, submit = _changed(keep_to_first_queue)
    assert record == "%arg0, %zero, %zero, %c1, %zero"
    assert submit == "%arg0, %c1, %arg1, %arg1, %c-1"


def test_commands_are_recorded_for_each_call():
    record, inline, _ = _changed(record_anew)
    assert record == "%arg0, %c1, %zero, %c-1, %zero"
    assert inline == "%arg0, %c17, %zero, %c-1, %zero"


def test_what_may_be_a_part_is_left_to_its_references():
    own, part = _changed(free_no_parts, FREEING)
    assert own == "%arg0, %c-1, %arg1, %arg1, %arg3, %zero"
    assert part == "%arg0, %c-1, %arg1, %arg2, %zero"


WAITING = """
vm.module public @program {
  vm.import private @hal.fence.create(%d: !vm.ref<!hal.device>, %f: i64) -> !vm.ref<!hal.fence>
  vm.import private @hal.device.queue.alloca(%d: !vm.ref<!hal.device>, %affinity: i64, %w: !vm.ref<!hal.fence>,
    %s: !vm.ref<!hal.fence>, %p: i64, %m: i32, %u: i32, %n: i64, %f: i64) -> !vm.ref<!hal.buffer>
  vm.import private @hal.device.queue.execute(%d: !vm.ref<!hal.device>, %affinity: i64, %w: !vm.ref<!hal.fence>,
    %s: !vm.ref<!hal.fence>, %b: !vm.ref<!hal.buffer>)
  vm.import private @hal.device.queue.dealloca(%d: !vm.ref<!hal.device>, %affinity: i64, %w: !vm.ref<!hal.fence>,
    %s: !vm.ref<!hal.fence>, %b: !vm.ref<!hal.buffer>, %f: i64)
  vm.func @main(%d: !vm.ref<!hal.device>, %start: !vm.ref<!hal.fence>, %end: !vm.ref<!hal.fence>) {
    %any = vm.const.i64 -1
    %o = vm.const.i64.zero
    %k = vm.const.i32.zero
    %there = vm.call @hal.fence.create(%d, %o) : (!vm.ref<!hal.device>, i64) -> !vm.ref<!hal.fence>
    %x = vm.call @hal.device.queue.alloca(%d, %any, %start, %there, %o, %k, %k, %o, %o) : (!vm.ref<!hal.device>, i64,
      !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, i64, i32, i32, i64, i64) -> !vm.ref<!hal.buffer>
    %first = vm.call @hal.fence.create(%d, %o) : (!vm.ref<!hal.device>, i64) -> !vm.ref<!hal.fence>
    vm.call @hal.device.queue.execute(%d, %any, %there, %first, %x)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, !vm.ref<!hal.buffer>) -> ()
    %freed = vm.call @hal.fence.create(%d, %o) : (!vm.ref<!hal.device>, i64) -> !vm.ref<!hal.fence>
    vm.call @hal.device.queue.dealloca(%d, %any, %first, %freed, %x, %o)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, !vm.ref<!hal.buffer>, i64) -> ()
    %second = vm.call @hal.fence.create(%d, %o) : (!vm.ref<!hal.device>, i64) -> !vm.ref<!hal.fence>
    vm.call @hal.device.queue.execute(%d, %any, %freed, %second, %x)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, !vm.ref<!hal.buffer>) -> ()
    vm.call @hal.device.queue.dealloca(%d, %any, %second, %end, %x, %o)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, !vm.ref<!hal.buffer>, i64) -> ()
    vm.return
  }
}
"""


def test_work_waits_for_work_alone():
    """Memory for nothing, and nobody for memory."""
    _, asked, _, one, _, _, two = _changed(wait_for_no_memory, WAITING)
    assert asked.split(", ")[2].startswith("%null")
    assert one.split(", ")[2:4] == ["%arg1", "%ref_2"] and two.split(", ")[2:4] == ["%ref_2", "%arg2"]


def test_memory_behind_two_fences_is_waited_for_by_the_queue():
    """Where the one fence is an argument as well as the other."""
    source = FREEING.replace("%origin = vm.const.i64 1", "%origin = vm.const.i64.zero")
    found = _changed(wait_for_no_memory, source)
    assert len(found) == 2 and all(len(each.split(", ")) == 5 for each in found)
