"""Programs for XLA: the module itself, which a plugin compiles when it is loaded."""

from __future__ import annotations

import hashlib

from veery_lowering.compiler import steps
from veery_lowering.emit.module import Emission
from veery_lowering.emit.portable import portable
from veery_lowering.program import Options
from veery_lowering.store.cache import disk_cache
from veery_lowering.targets import Target

_KEY_FORMAT = "xla 4"


def hand_over(emission: Emission, target: Target, options: Options) -> tuple[bytes, dict[str, str], str]:
    """The module as a portable artifact, metadata, and its key on disk."""
    steps.begin("portable artifact")
    code = portable(emission.module)
    key = hashlib.sha256(b"\0".join((_KEY_FORMAT.encode(), target.name.encode(), code))).hexdigest()
    metadata = {"target": target.name, "pipeline": "plugin's"}
    if options.cache:
        disk_cache().put(key, (code, metadata), 0.0)
    return code, metadata, key
