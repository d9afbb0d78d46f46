"""Donated arguments, as XLA is told of them: it writes results into their memory where shapes and uses allow it."""

from __future__ import annotations

from collections.abc import Sequence

from veery_lowering.mlir import ir


def mark_donors(module: ir.Module, donated: Sequence[bool]) -> None:
    """Mark the arguments of `main` that the program may overwrite."""
    if not any(donated):
        return
    main = next(f for f in module.body.operations if ir.StringAttr(f.attributes["sym_name"]).value == "main")
    marked, plain = ir.DictAttr.get({"jax.buffer_donor": ir.BoolAttr.get(True)}), ir.DictAttr.get({})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([marked if given else plain for given in donated])
