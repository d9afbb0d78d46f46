"""Lowering for XLA, the compiler that StableHLO was made for: its own operations, without what IREE makes necessary.

XLA does algebra on floats (it adds constants that are added in turn), so that formulas which rely on each rounding, as
those for IREE do, are wrong there. Whatever has an operation in StableHLO or CHLO is that operation.
"""

from veery_lowering.emit.rules.xla import (
    collective as collective,
    contract as contract,
    elementwise as elementwise,
    indexing as indexing,
    linalg as linalg,
    reduce as reduce,
    sort as sort,
)
