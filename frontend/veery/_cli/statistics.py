"""What a program costs, counted on its jaxpr and on IREE's dispatches."""

from __future__ import annotations

import re
from typing import Any

from veery._core.dimensions import is_symbolic
from veery._transforms.costs import count_operations, nbytes, peak_bytes


def dispatches(flow: str) -> list[str]:
    """The names of the dispatches in IREE's flow IR, in order, with repetitions."""
    return re.findall(r"flow\.dispatch @[\w$]+::@([\w$]+)", flow)


def statistics(traced: Any, lowered: Any) -> dict[str, Any]:
    """Operations with counts, FLOPs and bytes; totals; dispatches and the code's size; memory.

    With symbolic shapes the numbers are expressions, and the operations in the order of the program.
    """
    jaxpr = traced.jaxpr.jaxpr
    operations = count_operations(jaxpr)
    rank = lambda item: (-item[1]["flops"], -item[1]["transcendentals"], -item[1]["bytes"], item[0])
    compiled = lowered.compile()
    symbolic = is_symbolic(number for each in operations.values() for number in each.values())
    ordered = operations if symbolic else dict(sorted(operations.items(), key=rank))
    total = lambda key: sum(d[key] for d in operations.values())
    memory = compiled.memory_analysis()
    return {
        "operation_count": total("count"),
        "flops": total("flops"),
        "transcendentals": total("transcendentals"),
        "bytes_touched": total("bytes"),
        "argument_bytes": nbytes(v.aval for v in (*jaxpr.invars, *jaxpr.constvars)),
        "result_bytes": nbytes(v.aval for v in jaxpr.outvars),
        "temporary_bytes": memory.temp_size_in_bytes,
        "peak_bytes_unfused": peak_bytes(jaxpr),
        "dispatches": len(dispatches(lowered.as_text("flow"))),
        "program_bytes": memory.generated_code_size_in_bytes,
        **{key: value for key, value in compiled.cost_analysis().items() if key in ("work", "queue", "by shape")},
        **{key: text for key, text in compiled._program.metadata.items() if key == "fallback"},
        "operations": ordered,
    }
