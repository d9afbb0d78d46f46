"""Programs as people write them: each template draws one, with random shapes, types and variations.

A template takes a `Draw` and gives a function of arrays and its arguments. It uses only what JAX has too, and it is
valid there in every variation; all arrays are arguments, since what is closed over is drawn later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fuzz.draw import Draw

Made = tuple[Callable[..., Any], Sequence[Any]]


@dataclass(frozen=True)
class Template:
    """A function that draws programs, and what these may be subjected to.

    Attributes:
        half: whether the programs are valid in float16 and bfloat16.
        reverse: whether they have derivatives in reverse mode (loops of unknown length have not).
        smooth: whether they have derivatives at all that mean something.
    """

    make: Callable[[Draw], Made]
    half: bool = True
    reverse: bool = True
    smooth: bool = True

    @property
    def name(self) -> str:
        return self.make.__name__


TEMPLATES: dict[str, Template] = {}


def template(**properties: bool) -> Callable[[Callable[[Draw], Made]], Callable[[Draw], Made]]:
    """Register a template with its properties."""

    def register(make: Callable[[Draw], Made]) -> Callable[[Draw], Made]:
        TEMPLATES[make.__name__] = Template(make, **properties)
        return make

    return register


# isort: split
from fuzz.templates import (  # noqa: E402
    bits,
    learning,
    matrices,
    models,
    physics,
    sequences,
    trips,
    vision,
    waiting,
)
