"""`jit`, by the name that it had for several devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from veery._api.jit import JitFunction, jit as _jit


def pjit(
    fun: Callable[..., Any],
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """`veery.jit`, whose arguments it takes by position too; PartitionSpecs may be of the mesh of `with mesh:`.

    >>> import veery.numpy as jnp
    >>> pjit(lambda x: x + 1)(jnp.zeros(2)).tolist()
    [1.0, 1.0]
    """
    made = _jit(
        fun,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        static_argnums=static_argnums,
        static_argnames=static_argnames,  # type: ignore[arg-type]
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,  # type: ignore[arg-type]
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        compiler_options=compiler_options,
    )
    if made._options.shardings is None:
        return made
    shardings = replace(made._options.shardings, entered=True)
    return JitFunction(made._fun, replace(made._options, shardings=shardings))
