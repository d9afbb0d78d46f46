"""The file that reproduces a difference: a script that holds a StableHLO module, its arguments and what is expected."""

from __future__ import annotations

import base64
import hashlib
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from veery import _dispatch
from veery._core.compiler_options import Pairs
from veery._reference.blame import Culprit, place
from veery._reference.comparison import bounds_and_values
from veery._reference.formats import physical

_SCRIPT = '''\
"""{title}

The jaxpr:

{jaxpr}
"""

import base64
import sys
import zlib

import ml_dtypes  # the dtypes that NumPy lacks
import numpy as np

import veery

veery.config.update("jax_enable_x64", True)
MODULE = r"""
{module}
"""
ARGUMENTS = [  # dtype, shape, compressed bytes
{arguments}
]
EXPECTED = [
{expected}
]
BOUNDS = [  # by how much results may differ; inf where anything may be
{bounds}
]


def array(dtype, shape, text):
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), np.dtype(dtype)).reshape(shape)


program = veery.jit(veery.stablehlo.load(MODULE), compiler_options={options})
device = veery.devices({platform!r})[0]
results = program(*(veery.device_put(array(*x), device) for x in ARGUMENTS))
wrong = 0
for position, out in enumerate(results if isinstance(results, tuple) else [results]):
    expected, bound = array(*EXPECTED[position]), array(*BOUNDS[position])
    actual = np.asarray(out).astype(expected.dtype)
    with np.errstate(all="ignore"):
        right = (actual == expected) | np.isinf(bound) | (abs(actual - expected) <= bound)
        right |= (actual != actual) & (expected != expected)
    for index in np.argwhere(~right)[:5]:
        index = tuple(index.tolist())
        print(f"result {{position}} at {{index}}: {{actual[index]}} is not {{expected[index]}} +- {{bound[index]:.3g}}")
    wrong += int((~right).sum())
print(f"{{wrong}} elements are wrong")
sys.exit(1 if wrong else 0)
'''


def write(culprit: Culprit, name: str, target: str, options: Pairs, seed: int, folder: Path) -> Path:
    """Write the script for a part of a program that is wrong; returns its path."""
    program, args = culprit.program, culprit.args
    expected, bounds = bounds_and_values(program, args, seed)
    where = f" in {place(culprit.equation)}" if culprit.equation is not None else ""
    lowered = _dispatch.lower_jaxpr(program, name, target, (False,) * len(args), options)
    arrays = [np.asarray(x, physical(a.dtype)) for x, a in zip(args, program.in_avals)]
    text = _SCRIPT.format(
        title=f"A difference of jit({name}) on {target} from its evaluation in float64{where}.\n\n{culprit.how}",
        jaxpr=str(program),
        module=lowered.as_text(),
        arguments=_listed(arrays),
        expected=_listed(expected),
        bounds=_listed(bounds),
        options=dict(options),
        platform=target.split(":")[0],
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"veery_differs_{_safe(name)}_{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
    path.write_text(text)
    return path


def _listed(arrays: Any) -> str:
    rows = []
    for x in arrays:
        packed = base64.b85encode(zlib.compress(np.ascontiguousarray(x).tobytes())).decode()
        rows.append(f"    ({x.dtype.name!r}, {x.shape}, {packed!r}),")
    return "\n".join(rows)


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)[:40]
