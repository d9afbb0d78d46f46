"""Compiled programs over meshes: the names by which XLA makes them are not there, and say so."""

from veery._core.absent import attributes as _attributes

__getattr__, __dir__ = _attributes(__name__)
