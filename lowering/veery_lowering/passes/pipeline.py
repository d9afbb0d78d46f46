"""All passes, in the order in which a module meets them on its way from the rules to IREE's code.

Each pass is a function that changes a module in place, in the file that says what goes wrong without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from veery_lowering.kernels import (
    call_routines,
    fuse_columns,
    fuse_elements,
    fuse_loops,
    fuse_moves,
    fuse_pieces,
    fuse_products,
    fuse_rows,
    fuse_totals,
    keep_bytes,
)
from veery_lowering.kernels._placing import FEWEST_BINDINGS, MOST_BINDINGS
from veery_lowering.mlir import base_name, operations
from veery_lowering.passes.changes import Change
from veery_lowering.passes.stablehlo.aliasing import protect_arguments
from veery_lowering.passes.stablehlo.barriers import (
    clone_at_barriers,
    compute_before_reductions,
    compute_each,
    split_wide_fusions,
    wait_for_loops,
)
from veery_lowering.passes.stablehlo.bfloat16 import round_bfloat16
from veery_lowering.passes.stablehlo.branch_writes import write_behind_branches
from veery_lowering.passes.stablehlo.chains import part_chains
from veery_lowering.passes.stablehlo.columns import part_columns
from veery_lowering.passes.stablehlo.constants import (
    compute_constants,
    compute_sliced_constants,
    drop_unused_constants,
    hide_complex_updates,
    keep_halves,
    leave_unreversed,
    part_complex_numbers,
)
from veery_lowering.passes.stablehlo.crossings import part_crossed_reads
from veery_lowering.passes.stablehlo.donation import reuse_donated
from veery_lowering.passes.stablehlo.donors import mark_donors
from veery_lowering.passes.stablehlo.drops import redirect_dropped
from veery_lowering.passes.stablehlo.factors import convert_factors
from veery_lowering.passes.stablehlo.folding import fold_constants
from veery_lowering.passes.stablehlo.joins import part_joins
from veery_lowering.passes.stablehlo.lookups import compute_columns
from veery_lowering.passes.stablehlo.loops import settle
from veery_lowering.passes.stablehlo.ordering import order_effects
from veery_lowering.passes.stablehlo.overlaps import part_overlaps
from veery_lowering.passes.stablehlo.paddings import separate_paddings
from veery_lowering.passes.stablehlo.pauses import pause_loops
from veery_lowering.passes.stablehlo.products import settle_products
from veery_lowering.passes.stablehlo.shaders.contractions import split_contractions
from veery_lowering.passes.stablehlo.shaders.convolutions import split_convolutions
from veery_lowering.passes.stablehlo.shaders.dispatches import (
    end_dispatches_after_reductions,
    end_dispatches_before_wide_broadcasts,
)
from veery_lowering.passes.stablehlo.shaders.extremes import fold_unsigned_extremes
from veery_lowering.passes.stablehlo.shaders.joins import join_by_writing
from veery_lowering.passes.stablehlo.shaders.loops import separate_loops
from veery_lowering.passes.stablehlo.shaders.negations import multiply_for_negations
from veery_lowering.passes.stablehlo.shaders.positions import materialize_positions
from veery_lowering.passes.stablehlo.shaders.reductions import split_reductions
from veery_lowering.passes.stablehlo.shaders.roundings import keep_roundings
from veery_lowering.passes.stablehlo.shaders.scatters import split_scatters
from veery_lowering.passes.stablehlo.sharing import part_shared
from veery_lowering.passes.stablehlo.stages import reduce_in_stages
from veery_lowering.passes.stablehlo.strides import compute_strided
from veery_lowering.passes.stablehlo.tallies import reduce_scatters
from veery_lowering.passes.stablehlo.terms import write_stacks_out, write_terms_out
from veery_lowering.passes.stablehlo.trips import join_trips
from veery_lowering.passes.stablehlo.unread import drop_unread
from veery_lowering.passes.stablehlo.updates import part_updates
from veery_lowering.passes.stablehlo.warps import fill_warps
from veery_lowering.passes.stablehlo.wholes import complete_products
from veery_lowering.passes.stablehlo.widened import compute_widened
from veery_lowering.passes.stream.arguments import tell_donated
from veery_lowering.passes.vm.allocation import allocate_memory
from veery_lowering.passes.vm.branches import separate
from veery_lowering.passes.vm.dispatches import refuse_wide_dispatches
from veery_lowering.passes.vm.queues import free_no_parts, keep_to_first_queue, record_anew, wait_for_no_memory


class Stage(Enum):
    """What a module is when passes change it; the value says it in words."""

    EMITTED = "as the rules made it"
    INLINED = "without calls"
    SIMPLIFIED = "without calls, nothing computed twice"
    CODE = "IREE's code, before it is encoded"


class Fusion(Enum):
    """How much of a program may be computed together; the value is what is said of it."""

    FULL = "with all fusions"
    NO_KERNELS = "without kernels of our own"
    REDUCED_APART = "with what is reduced computed before"
    NONE = "with each value for itself"


@dataclass(frozen=True)
class Situation:
    """What decides which passes are run, and what they are told.

    Attributes:
        backend: "cpu", "vulkan" or "cuda".
        donated: for each argument, whether it may be overwritten.
        protect: whether other arguments are kept from being overwritten.
        fusion: how much may be computed together.
        kept: donated arguments that are left alone; None if all are.
        large: whether calls may run on worker threads.
        branches: whether the module has blocks that are passed values.
        register: bytes of a vector register of the processor.
    """

    backend: str
    donated: tuple[bool, ...] = ()
    protect: bool = True
    fusion: Fusion = Fusion.FULL
    kept: Collection[int] | None = None
    large: bool = False
    branches: bool = False
    register: int = 32

    @property
    def most_bindings(self) -> int:
        """How many buffers a dispatch has at most."""
        return FEWEST_BINDINGS if self.backend == "cuda" else MOST_BINDINGS


class Pass(NamedTuple):
    """A pass, and when it is run.

    Attributes:
        stage: what it changes.
        function: `(module, *given)`, which may return what it found out.
        purpose: what would go wrong without it.
        when: the situations in which it is run.
        given: what it is told of the situation.
        about: StableHLO's operations of which there must be one, or it has nothing to do; empty if that is not known.
    """

    stage: Stage
    function: Callable[..., Any]
    purpose: str
    when: Callable[[Situation], bool] = lambda s: True
    given: Callable[[Situation], Sequence[Any]] = lambda s: ()
    about: str = ""

    @property
    def name(self) -> str:
        """That of the function."""
        return self.function.__name__


_on_vulkan: Callable[[Situation], bool] = lambda s: s.backend == "vulkan"
_on_gpus: Callable[[Situation], bool] = lambda s: s.backend in ("vulkan", "cuda")
_for_xla: Callable[[Situation], bool] = lambda s: s.backend == "xla"
_by_iree: Callable[[Situation], bool] = lambda s: not _for_xla(s)
_each_apart: Callable[[Situation], bool] = lambda s: s.fusion is Fusion.NONE

PASSES = (
    Pass(Stage.EMITTED, drop_unused_constants, "literals that a rule folded into something else"),
    Pass(
        Stage.EMITTED, fold_unsigned_extremes, "the minimum of signed integers is wrong in small groups",
        _on_gpus, about="reduce",
    ),
    Pass(Stage.EMITTED, split_reductions, "drivers end long loops of a shader", _on_vulkan, about="reduce"),
    Pass(Stage.EMITTED, split_contractions, "drivers end long loops of a shader", _on_vulkan, about="dot_general"),
    Pass(Stage.EMITTED, split_convolutions, "drivers end long loops of a shader", _on_vulkan, about="convolution"),
    Pass(Stage.EMITTED, split_scatters, "drivers end long loops of a shader", _on_vulkan, about="scatter"),
    Pass(
        Stage.EMITTED, join_by_writing, "columns of arrays of unknown sizes are read from another place",
        _on_vulkan, about="concatenate",
    ),
    # Behind all that makes reductions.
    Pass(
        Stage.EMITTED, end_dispatches_after_reductions, "two reductions in a dispatch do not compile",
        _on_gpus, lambda s: (s.backend,), about="reduce",
    ),
    Pass(Stage.EMITTED, end_dispatches_before_wide_broadcasts, "one invocation computes what many could", _on_vulkan),
    Pass(Stage.EMITTED, materialize_positions, "reductions of positions do not compile", _on_vulkan, about="reduce"),
    Pass(Stage.EMITTED, multiply_for_negations, "sums of what is negated do not compile", _on_vulkan, about="reduce"),
    Pass(Stage.EMITTED, keep_roundings, "drivers do algebra on floats", _on_vulkan),
    Pass(
        Stage.EMITTED, separate_loops, "loops that start from one array of unknown size share it",
        _on_vulkan, about="while",
    ),
    Pass(
        Stage.EMITTED, order_effects, "XLA runs calls with effects in any order",
        _for_xla, about="custom_call",
    ),
    Pass(
        Stage.EMITTED, part_overlaps, "XLA writes into what it still reads, seen through a reshape",
        _for_xla, about="dynamic_update_slice",
    ),
    Pass(Stage.EMITTED, mark_donors, "XLA copies what it may overwrite", _for_xla, lambda s: (s.donated,)),
    # Before `protect_arguments`, which copies what branches hand on; and again when calls in them are gone.
    Pass(
        Stage.EMITTED, write_behind_branches, "donated arguments are copied that branches hand on",
        lambda s: s.fusion is Fusion.FULL and s.backend == "cpu" and any(s.donated), about="case if",
    ),
    # Before `protect_arguments`, which looks through barriers.
    Pass(
        Stage.EMITTED, split_wide_fusions, "a dispatch of more than 32 buffers cannot be loaded",
        _by_iree, lambda s: (s.most_bindings,),
    ),
    Pass(
        Stage.EMITTED, protect_arguments, "IREE updates arguments in place that nobody gave away",
        lambda s: s.protect and _by_iree(s), lambda s: (s.donated,),
    ),
    Pass(
        Stage.INLINED, separate_paddings, "of two paddings IREE makes one without what is between elements",
        about="pad",
    ),
    # Before those that ask whether a value is a constant.
    Pass(Stage.SIMPLIFIED, fold_constants, "what constants give is computed when a program is loaded"),
    Pass(Stage.SIMPLIFIED, leave_unreversed, "slices of a reversed constant do not compile", about="reverse"),
    Pass(
        Stage.SIMPLIFIED, hide_complex_updates, "complex constants written into others do not compile",
        about="dynamic_update_slice",
    ),
    Pass(Stage.SIMPLIFIED, compute_constants, "sums of what constants give forget how many they sum"),
    Pass(
        Stage.SIMPLIFIED, compute_sliced_constants, "slices of constants are zeros where they are reduced",
        lambda s: s.backend == "cuda", about="slice",
    ),
    Pass(Stage.SIMPLIFIED, round_bfloat16, "what is fused of bfloat16 is not rounded"),
    Pass(
        Stage.SIMPLIFIED, write_behind_branches, "each branch copies an array of which one writes a part",
        lambda s: s.fusion is Fusion.FULL and s.backend == "cpu", about="case if select",
    ),
    Pass(
        Stage.SIMPLIFIED, write_stacks_out, "what is stacked to be reduced is written to memory",
        lambda s: s.fusion is Fusion.FULL and _by_iree(s), about="concatenate",
    ),
    Pass(
        Stage.SIMPLIFIED, call_routines, "IREE knows nothing of LAPACK",
        lambda s: s.backend == "cpu", about="custom_call",
    ),
    # Loops in functions are seen now; `settle` is for those that are left to IREE.
    Pass(
        Stage.SIMPLIFIED, fuse_loops, "a trip of a loop costs a dispatch",
        lambda s: s.fusion is Fusion.FULL and _by_iree(s), lambda s: (s.backend, s.register), about="while",
    ),
    Pass(
        Stage.SIMPLIFIED, join_trips, "each trip of a loop is submitted by itself",
        lambda s: _on_gpus(s) and s.fusion is Fusion.FULL, about="while",
    ),
    Pass(
        Stage.SIMPLIFIED, fuse_pieces, "each reduction, product and join is a dispatch, however small",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, lambda s: (s.register,),
    ),
    Pass(
        Stage.SIMPLIFIED, fuse_products, "copies of operands are dispatches, and what follows is written out often",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, lambda s: (s.register, s.donated),
        about="convolution dot_general",
    ),
    Pass(
        Stage.SIMPLIFIED, fuse_rows, "each reduction of a row, and what follows the last, reads an array anew",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, lambda s: (s.register, s.donated),
        about="reduce",
    ),
    Pass(
        Stage.SIMPLIFIED, fuse_columns, "each reduction of columns, and what follows the last, reads an array anew",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, lambda s: (s.register, s.donated),
        about="reduce",
    ),
    Pass(
        Stage.SIMPLIFIED, fuse_totals, "the code of a reduction to a number takes long to be chosen and written",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, lambda s: (s.register,), about="reduce",
    ),
    Pass(
        Stage.SIMPLIFIED, part_joins, "each of very many parts that are joined is a dispatch",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, about="concatenate",
    ),
    # What loops are left is seen now.
    Pass(
        Stage.SIMPLIFIED, fuse_moves, "each part of a join, and each step of a scatter, is a dispatch of its own",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, lambda s: (s.register,),
        about="add compare complex concatenate gather imag multiply negate pad real reverse scatter select slice"
        " subtract",
    ),
    Pass(Stage.SIMPLIFIED, keep_bytes, "booleans from one kernel to another are a dispatch", about="convert"),
    # Behind the kernels that compute what is elementwise with something else.
    Pass(
        Stage.SIMPLIFIED, part_chains, "n operations that IREE fuses take the time of n * n",
        lambda s: _by_iree(s) and not _each_apart(s),
    ),
    Pass(
        Stage.SIMPLIFIED, fuse_elements, "what is elementwise is compiled when all else is decided",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, lambda s: (s.register, s.donated),
    ),
    Pass(
        Stage.SIMPLIFIED, drop_unread, "IREE's passes look at what kernels have computed themselves",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL,
    ),
    # Behind the kernels, which have what is small.
    Pass(
        Stage.SIMPLIFIED, write_terms_out, "few terms are reduced without vectors",
        lambda s: s.backend == "cpu" and s.fusion is Fusion.FULL, about="reduce",
    ),
    Pass(
        Stage.SIMPLIFIED, redirect_dropped, "scatters write outside of their operands",
        lambda s: s.backend == "cpu", about="scatter",
    ),
    Pass(Stage.SIMPLIFIED, settle_products, "products forget the signs of what was converted for them"),
    Pass(
        Stage.SIMPLIFIED, convert_factors, "products convert each element as often as they multiply it",
        lambda s: s.backend == "cpu", about="dot_general",
    ),
    Pass(
        Stage.SIMPLIFIED, complete_products, "products of odd sizes, and of what is transposed, are slow",
        lambda s: s.backend == "cuda" and not _each_apart(s), about="dot_general",
    ),
    Pass(
        Stage.SIMPLIFIED, reduce_scatters, "one thread writes all updates of a scatter",
        lambda s: s.backend == "cuda" and not _each_apart(s), about="scatter",
    ),
    # Behind what takes loops for kernels, which run in one thread, and what looks at the sums of products.
    Pass(
        Stage.SIMPLIFIED, reduce_in_stages, "one core sums a whole array",
        lambda s: s.backend in ("cpu", "cuda") and s.fusion is Fusion.FULL, lambda s: (s.backend,),
        about="reduce dot_general",
    ),
    Pass(
        Stage.SIMPLIFIED, fill_warps, "one thread reduces what no warp divides",
        lambda s: s.backend == "cuda" and not _each_apart(s), about="reduce",
    ),
    Pass(
        Stage.SIMPLIFIED, part_columns, "workgroups that have rows reduce all columns, each of them",
        lambda s: s.backend == "cpu", about="reduce",
    ),
    Pass(
        Stage.SIMPLIFIED, compute_before_reductions, "of a constant that is reduced IREE forgets the size",
        lambda s: s.fusion is Fusion.REDUCED_APART, about="reduce reduce_window",
    ),
    Pass(Stage.SIMPLIFIED, compute_each, "IREE fails with what it fuses", _each_apart),
    Pass(
        Stage.SIMPLIFIED, compute_widened, "invocations read each other's parts of a value without waiting",
        lambda s: _on_vulkan(s) and not _each_apart(s),
    ),
    Pass(Stage.SIMPLIFIED, part_crossed_reads, "what an expression reads of a sum in a second way is not there yet"),
    Pass(Stage.SIMPLIFIED, compute_strided, "slices with steps of widened values forget the steps", about="slice"),
    Pass(
        Stage.SIMPLIFIED, part_complex_numbers, "several complex constants that reductions begin with are one",
        about="complex",
    ),
    # Behind all that makes barriers, but for those that keep loops in their form.
    Pass(
        Stage.SIMPLIFIED, clone_at_barriers, "at IREE's barriers a call waits on the host",
        about="optimization_barrier",
    ),
    # Its barriers stay, since the host waits for what they are before.
    Pass(Stage.SIMPLIFIED, keep_halves, "there are no globals of half precision", about="pad reduce"),
    Pass(
        Stage.SIMPLIFIED, wait_for_loops, "IREE forgets loops in what it submits together",
        _each_apart, about="while",
    ),
    Pass(
        Stage.SIMPLIFIED, part_shared, "what a branch hands on is freed, or written, while something else has it",
        about="case if while",
    ),
    Pass(Stage.SIMPLIFIED, part_updates, "a value that is written in part is written before something else reads it"),
    Pass(
        Stage.SIMPLIFIED, pause_loops, "what is submitted of long loops takes memory until it has run",
        lambda s: s.backend == "cpu", about="while",
    ),
    Pass(Stage.SIMPLIFIED, settle, "carries of loops that are not read, or go round, break", about="while"),
    Pass(
        Stage.SIMPLIFIED, compute_columns, "columns in which values are looked up do not compile",
        about="gather reverse",
    ),
    # Last, since it puts operations in an order that has to stay.
    Pass(
        Stage.SIMPLIFIED, reuse_donated, "results in the memory of donated arguments",
        lambda s: s.kept is not None, lambda s: (s.donated, s.kept),
    ),
    Pass(
        Stage.SIMPLIFIED, tell_donated, "donated arguments are copied before they are written",
        lambda s: s.backend == "cpu" and any(s.donated), lambda s: (s.donated,),
    ),
    Pass(
        Stage.CODE, refuse_wide_dispatches, "a program with a dispatch of more than 32 buffers cannot be loaded",
        given=lambda s: (s.most_bindings,),
    ),
    Pass(Stage.CODE, separate, "a value passed twice to a block empties a register", lambda s: s.branches),
    Pass(
        Stage.CODE, free_no_parts, "what a loop carried is given back though it is a part of an allocation",
        lambda s: s.branches,
    ),
    Pass(
        Stage.CODE, wait_for_no_memory, "the host waits for what memory is asked for, or freed, behind",
        lambda s: s.backend == "cuda",
    ),
    Pass(
        Stage.CODE, allocate_memory, "IREE's pool of memory loses slabs",
        lambda s: s.large and s.backend == "cpu",
    ),
    Pass(Stage.CODE, keep_to_first_queue, "two queues of one device signal in the wrong order", _on_vulkan),
    Pass(Stage.CODE, record_anew, "copies are played again with the first call's buffers", _on_vulkan),
)  # fmt: skip


# Those that make kernels of ours, and return how many.
MAKE_KERNELS = (
    fuse_loops, fuse_pieces, fuse_products, fuse_rows, fuse_columns, fuse_totals, fuse_moves, fuse_elements,
)  # fmt: skip


def chosen(stage: Stage, situation: Situation) -> list[Pass]:
    """The passes that change a module at a stage."""
    return [p for p in PASSES if p.stage is stage and p.when(situation)]


def changes_of_code(situation: Situation) -> tuple[Change, ...]:
    """What changes IREE's code before it is encoded."""
    return tuple(Change(p.function, tuple(p.given(situation))) for p in chosen(Stage.CODE, situation))


def run(stage: Stage, module: Any, situation: Situation) -> dict[str, Any]:
    """Change a module in place by the passes of a stage; what they found out, by their names."""
    watch = _watch.get()
    found = {}
    names: set[str] | None = None  # of the operations in the module; None where that has to be looked up again
    for p in chosen(stage, situation):
        if p.about:
            names = names or {base_name(op.name) for op in operations(getattr(module, "operation", module))}
            if names.isdisjoint(p.about.split()):
                continue
        names = None
        change = functools.partial(p.function, module, *p.given(situation))
        found[p.name] = change() if watch is None else watch(p, module, change)
    return found


Watch = Callable[[Pass, Any, Callable[[], Any]], Any]
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched_by(watch: Watch) -> Iterator[None]:
    """A context in which passes are run by `watch(pass, module, change)`, which returns what `change()` does."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)
