"""Modules of StableHLO from elsewhere: loaded, run, and compared with what NumPy makes of their chains."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

import veery as jax
from fuzz.chains import Chain, drawn, text_of
from fuzz.checks import Fallbacks, Outcome, described, note
from fuzz.targets import Target


def check_module(seed: int, number: int, target: Target) -> Outcome:
    """Make a module, run it on a target, and compare its results; the detail has the smallest that fails as it does."""
    start = time.perf_counter()
    chains = drawn(seed, number)
    outcome = Outcome(seed, number, "ok", f"{len(chains)} chains")
    with Fallbacks() as said:
        outcome.kind, outcome.detail = _judged(chains, target)
    if outcome.is_finding:
        outcome.detail += "\n" + text_of(_reduced(seed, number, outcome.kind, target) or chains)
    note(said, outcome)
    outcome.seconds = round(time.perf_counter() - start, 3)
    return outcome


def _judged(chains: Sequence[Chain], target: Target) -> tuple[str, str]:
    """What comes of a module, and what is wrong with it."""
    try:
        call = jax.stablehlo.load(text_of(chains))
        with target.device():
            outs = call(*(c.argument.x for c in chains))
        outs = [np.asarray(x) for x in (outs if isinstance(outs, (tuple, list)) else [outs])]
    except Exception as error:
        return "refused", described(error)
    wrong = [_difference(c, out) for c, out in zip(chains, outs, strict=True) if not _is_right(c, out)]
    return ("wrong", "\n".join(wrong)) if wrong else ("ok", "")


def _is_right(chain: Chain, out: np.ndarray) -> bool:
    return (out.dtype, out.shape) == (chain.x.dtype, chain.x.shape) and np.array_equal(out, chain.x)


def _difference(chain: Chain, out: np.ndarray) -> str:
    steps = " -> ".join(chain.steps)
    return f"{chain.key}: {chain.argument.type} -> {steps}: {out.ravel()[:8]}, expected {chain.x.ravel()[:8]}"


def _reduced(seed: int, number: int, kind: str, target: Target) -> list[Chain] | None:
    """The shortest single chain that fails in the same way."""
    for length in range(1, 8):
        for chain in drawn(seed, number, length):
            if len(chain.steps) == length and _judged([chain], target)[0] == kind:
                return [chain]
    return None
