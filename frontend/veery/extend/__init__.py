"""For libraries that extend veery: the core's data types and all primitives."""

from veery.extend import core as core
