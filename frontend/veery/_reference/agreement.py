"""Several evaluations of one program: which of them agree, and who is alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from veery._reference.comparison import Comparison

REFERENCE = "the reference"


def standing(comparisons: Mapping[str, Comparison]) -> str:
    """A sentence on who agrees with whom.

    Args:
        comparisons: of what each compiler's program returned, by the compiler's or the device's name, with the same
            evaluation of the reference.

    >>> import veery, veery.numpy as jnp
    >>> from veery._reference.comparison import compare_each
    >>> x = jnp.array([2.0])
    >>> closed = veery.make_jaxpr(jnp.sin)(x)
    >>> found = compare_each(closed, [x], [[jnp.sin(x)], [jnp.cos(x)]])
    >>> standing(dict(zip(["cpu", "xla"], found)))
    'xla is alone: the reference and cpu agree.'
    """
    groups = [[REFERENCE, *(name for name, c in comparisons.items() if c.ok)]]
    for name, comparison in comparisons.items():
        if comparison.ok:
            continue
        like = next((g for g in groups[1:] if agree(comparisons[g[0]], comparison)), None)
        if like is None:
            groups.append([name])
        else:
            like.append(name)
    alone = [group[0] for group in groups if len(group) == 1]
    together = [group for group in groups if len(group) > 1]
    if not together:
        return f"No two of {_listed(alone)} agree."
    agreeing = "; ".join(f"{_listed(group)} agree" for group in together)
    if not alone:
        return _sentence(agreeing)
    return _sentence(f"{_listed(alone)} {'is' if len(alone) == 1 else 'are'} alone: {agreeing}")


def _sentence(text: str) -> str:
    return f"T{text[1:]}." if text.startswith(REFERENCE) else f"{text}."


def agree(a: Comparison, b: Comparison) -> bool:
    """Whether two programs' results differ by no more than each of them may differ from the reference.

    Results that may be anything, as behind a jump, are left out, as they are when a program is compared.
    """
    return all(_near(x, y, bound) for x, y, bound in zip(a.actual, b.actual, a.bounds, strict=True))


def _near(x: np.ndarray, y: np.ndarray, bound: np.ndarray) -> bool:
    if x.shape != y.shape or x.shape != bound.shape:
        return False
    with np.errstate(all="ignore"):
        same = (x == y) | ((x != x) & (y != y)) | np.isinf(bound)
        if x.dtype.kind in "fc":
            same |= np.abs(x - y) <= 2 * bound
    return bool(same.all())


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
