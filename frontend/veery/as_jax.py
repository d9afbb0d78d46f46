"""Importing this puts veery in JAX's place: `import jax` is veery from then on, in this process and in its children.

Programs and libraries that are written for JAX run as they are. The import stands before all that imports jax; in
front of a whole program there is `veery as-jax program.py`, of tests `pytest -p veery.as_jax`, and in a notebook
`%load_ext veery`.

>>> import veery.as_jax
>>> import jax.numpy as jnp
>>> jnp is veery.numpy
True
>>> import jaxlib.mlir
Traceback (most recent call last):
    ...
ModuleNotFoundError: there is no jaxlib.mlir: veery stands in JAX's place, and runs programs without jaxlib
"""

import importlib

from veery import _in_place

_in_place.install()
importlib.import_module("jax")  # which is veery from here on, and says so by its version
