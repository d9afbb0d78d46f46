"""Programs for Vulkan: all their work on one queue."""

from __future__ import annotations

from veery_lowering.mlir import context, ir
from veery_lowering.queues import keep_to_first_queue

MODULE = """
vm.module public @program {
  vm.import private @hal.command_buffer.create(%d: !vm.ref<!hal.device>, %m: i32, %c: i32, %affinity: i64, %n: i32)
    -> !vm.ref<!hal.command_buffer>
  vm.import private @hal.device.queue.barrier(%d: !vm.ref<!hal.device>, %affinity: i64, %w: !vm.ref<!hal.fence>,
    %s: !vm.ref<!hal.fence>, %f: i64)
  vm.func @main(%d: !vm.ref<!hal.device>, %f: !vm.ref<!hal.fence>) {
    %any = vm.const.i64 -1
    %zero = vm.const.i32 0
    %c = vm.call @hal.command_buffer.create(%d, %zero, %zero, %any, %zero)
      : (!vm.ref<!hal.device>, i32, i32, i64, i32) -> !vm.ref<!hal.command_buffer>
    vm.call @hal.device.queue.barrier(%d, %any, %f, %f, %any)
      : (!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, i64) -> ()
    vm.return
  }
}
"""


def test_work_for_any_queue_goes_to_the_first():
    with context():
        module = ir.Module.parse(MODULE)
        assert keep_to_first_queue(module)
        text = module.operation.get_asm(assume_verified=True)
    (record,) = [line for line in text.splitlines() if "vm.call @hal.command_buffer.create" in line]
    (submit,) = [line for line in text.splitlines() if "vm.call @hal.device.queue.barrier" in line]
    assert "%zero, %c1, %zero)" in record
    assert "(%arg0, %c1, %arg1, %arg1, %c-1)" in submit.replace("%c1_0", "%c1")
