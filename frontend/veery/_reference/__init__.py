"""The reference: jaxprs interpreted by NumPy and SciPy, and what compiled programs return compared with it.

    evaluate(closed_jaxpr, *args) -> list of arrays
    compare(closed_jaxpr, args, outs, seed=0) -> Comparison

`evaluate` computes with real numbers of every width in float64, with complex ones in complex128 and with integers
exactly (the rule is told in `formats`). It shares no formula with the lowering: the references of primitives are
NumPy's and SciPy's functions.

`compare` says which elements of a program's outputs are wrong. How much an element may differ follows the conditioning
of the program: beside the float64 evaluation there are three in which the result of each equation was changed by a
random error of the size of its dtype's rounding (Monte-Carlo arithmetic); their distance, times a factor, and a few
units in the last place are the bound. Where an error may reach over a jump (comparisons, floor, sorting, conversion to
integers), samples take either side, so that what follows differs; elements about which samples disagree are not
compared, and counted as `undetermined`. Arguments have no error: the program has the same. Results that a format
represents exactly have none either, so that masks, counts and whole numbers in floats are compared to the last bit.
"""

from veery._reference import (
    control_flow as control_flow,
    discontinuities as discontinuities,
    linear_algebra as linear_algebra,
)
from veery._reference.comparison import (
    Comparison as Comparison,
    Failure as Failure,
    compare as compare,
    evaluate as evaluate,
)
from veery._reference.interpreter import Unverifiable as Unverifiable

__all__ = ["Comparison", "Failure", "Unverifiable", "compare", "evaluate"]
