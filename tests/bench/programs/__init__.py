"""Programs of many kinds, the same for veery and JAX, and for NumPy those that are NumPy's.

Each file has a group: a function that is given a library under JAX's names, and gives for each name a function that is
to be compiled and its arguments.
"""

from __future__ import annotations

from programs import (
    convolutions,
    derivatives,
    elementwise,
    linear_algebra,
    loops,
    methods,
    models,
    movement,
    products,
    random_numbers,
    reductions,
)

GROUPS = {
    "elementwise": elementwise.programs,
    "reductions": reductions.programs,
    "movement": movement.programs,
    "products": products.programs,
    "linear algebra": linear_algebra.programs,
    "convolutions": convolutions.programs,
    "loops": loops.programs,
    "derivatives": derivatives.programs,
    "models": models.programs,
    "methods": methods.programs,
    "random numbers": random_numbers.programs,
}
