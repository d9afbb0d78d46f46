"""Programs, each from a seed and a number alone: a template or a random graph, under a nesting of transformations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import veery as jax
from fuzz.draw import SIZES, Draw
from fuzz.graphs import random_graph
from fuzz.nesting import Stage, Transformation, drawn_names, nest
from fuzz.templates import TEMPLATES, Template


@dataclass(frozen=True)
class Edits:
    """How a program differs from the one that was drawn, to make it smaller.

    Attributes:
        largest: no size is above it.
        dropped: the places of transformations that are left out.
        keep_donation: whether arguments are donated if they were drawn to be.
    """

    largest: int = SIZES[-1]
    dropped: frozenset[int] = frozenset()
    keep_donation: bool = True


@dataclass
class Program:
    """A function, its arguments, and how it was made.

    Attributes:
        name: the template.
        stages: the function itself, and then after each transformation.
        transformations: those that were applied, the innermost first.
        places: where in the drawn list each of them stands.
        donated: arguments that the program may overwrite.
        wide: whether it is traced with 64-bit types.
    """

    seed: int
    number: int
    name: str
    stages: list[Stage]
    transformations: list[Transformation]
    places: list[int]
    donated: tuple[int, ...]
    wide: bool
    edits: Edits = field(default_factory=Edits)

    @property
    def fun(self) -> Callable[..., tuple[Any, ...]]:
        return self.stages[-1].fun

    @property
    def args(self) -> tuple[np.ndarray, ...]:
        return self.stages[-1].args

    def __str__(self) -> str:
        names = [type(t).__name__.lower() for t in self.transformations]
        text = self.name
        for name in names:
            text = f"{name}({text})"
        return text + (f" donating {list(self.donated)}" if self.donated else "") + (" in 64 bits" if self.wide else "")


class Draft:
    """A program that is yet to be made, once; nothing is traced before.

    Args:
        seed, number: which one.
        edits: how it differs from the one drawn.
        half, wide: whether it may compute in 16 and in 64 bits.

    `wide` then says under which setting of 64-bit types `make` must be called.
    """

    def __init__(self, seed: int, number: int, edits: Edits = Edits(), half: bool = True, wide: bool = True):  # noqa: B008
        self.seed, self.number, self.edits, self._types = seed, number, edits, (half, wide)
        first = Draw([seed, number, 0])
        self.template: Template | None = None
        self.name = "graph"
        if first.chance(0.62):
            self.name = first.pick(*sorted(TEMPLATES))
            self.template = TEMPLATES[self.name]
        self.names = drawn_names(first)
        self.donates = first.chance(0.2)
        half = half and (self.template is None or self.template.half)
        self.draw = Draw([seed, number, 1], edits.largest, half=half, wide=wide)
        self.wide = self.draw.wide

    def again(self, edits: Edits) -> Draft:
        """The same program with other edits."""
        return Draft(self.seed, self.number, edits, *self._types)

    def transformation_draw(self, place: int) -> Draw:
        """The choices of a transformation."""
        return Draw([self.seed, self.number, 2 + place], half=False, wide=False)

    def make(self) -> Program:
        """Trace and transform. What the product refuses is raised from here."""
        template = self.template
        if template is None:
            fun, args = random_graph(self.draw)
            stage = Stage(flat(fun), tuple(map(np.asarray, args)))
        else:
            fun, args = template.make(self.draw)
            stage = Stage(flat(fun), tuple(map(np.asarray, args)), 0, template.reverse, template.smooth)
        stages, transformations, places = [stage], [], []
        for i, name in enumerate(self.names):
            if i in self.edits.dropped:
                continue
            transformation = nest(stages[-1], name, self.transformation_draw(i))
            if transformation is not None:
                transformations.append(transformation)
                stages.append(transformation.stage)
                places.append(i)
        donated = ()
        if self.donates and self.edits.keep_donation:
            donated = tuple(self.draw.subset(range(len(stages[-1].args))))
        return Program(
            self.seed, self.number, self.name, stages, transformations, places, donated, self.wide, self.edits
        )


def flat(fun: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The function with a tuple of its leaves as its result."""
    return lambda *xs: tuple(jax.tree_util.tree_leaves(fun(*xs)))
