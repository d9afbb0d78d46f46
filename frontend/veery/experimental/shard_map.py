"""`shard_map`, with the arguments that it had before it was `veery.shard_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veery._api.shard_map import shard_map as _shard_map


def shard_map(f: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True) -> Any:
    """`veery.shard_map`.

    Args:
        f: function of the parts.
        mesh: the mesh.
        in_specs: which part of its arguments each device gets.
        out_specs: how the parts make up the results.
        check_rep: `check_vma` there.

    >>> import veery, veery.numpy as jnp
    >>> mesh = veery.make_mesh((1,), ("x",))
    >>> shard_map(lambda x: 2 * x, mesh, veery.P("x"), veery.P("x"))(jnp.ones(2)).tolist()
    [2.0, 2.0]
    """
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
