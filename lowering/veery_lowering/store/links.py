"""Links on disk from jaxprs to their compiled programs: finding one takes under a millisecond, and no compiler.

Lowering first, to look for the module, takes 5 to 50 ms a program after the 0.1 s in which the compiler is loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from veery_lowering import host
from veery_lowering.program import Options, Program, Signature, call_metadata
from veery_lowering.store.cache import disk_cache
from veery_lowering.store.fingerprint import fingerprint
from veery_lowering.store.machine import compiler_state, cpu_features

_PLAIN_FIELDS = ("target", "backend", "donated", "work", "blocking", "entry", "calls_routines")
_METADATA = ("largest_step",)  # what neither the compiler says nor a call


def key(closed_jaxpr: Any, target: str, donated: Sequence[bool], options: Options) -> str | None:
    """The name of the link for a jaxpr; None for one that cannot have a link."""
    text = fingerprint(closed_jaxpr)
    if text is None:
        return None
    parts = (compiler_state(), cpu_features(), target, repr(tuple(donated)), repr(options), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def make(link: str, program: Program, closed_jaxpr: Any) -> None:
    """Keep a link to a program, unless it calls Python functions of a user."""
    calls = host.described(program.host_calls, closed_jaxpr)
    if calls is None:
        return
    fields = {name: getattr(program, name) for name in (*_PLAIN_FIELDS, "inputs", "outputs")}
    fields["host_calls"] = calls
    fields["metadata"] = {name: program.metadata[name] for name in _METADATA if name in program.metadata}
    disk_cache().put_link(link, {"key": program.key, "program": json.dumps(fields)})


def follow(link: str, name: str, source: str, options: Options, closed_jaxpr: Any) -> Program | None:
    """The program of a jaxpr to which a link leads, or None."""
    cache = disk_cache()
    found = cache.get_link(link)
    entry = cache.get(found["key"]) if found else None
    if found is None or entry is None:
        return None
    fields = json.loads(found["program"])
    vmfb, metadata = entry[0], {**entry[1], **fields.pop("metadata"), **call_metadata(options, source)}
    fields["donated"] = tuple(fields["donated"])
    fields["host_calls"] = host.restored(fields["host_calls"], closed_jaxpr)
    if fields["host_calls"] is None:
        return None
    signatures: dict[str, Any] = {side: _signature(fields.pop(side)) for side in ("inputs", "outputs")}
    return Program(name=name, vmfb=vmfb, metadata=metadata, key=found["key"], **signatures, **fields)


def _signature(items: list[Any]) -> Signature:
    return tuple((tuple(shape), dtype) for shape, dtype in items)
