"""Records random numbers of JAX: recorded.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/random/record.py [--check]
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from recorded_cases import CASES
from support.recording import arguments, keep


def described(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def main() -> None:
    options = arguments(__doc__)
    record = {name: described(case(jax, jax.random.PRNGKey(42))) for name, case in CASES.items()}
    keep(Path(__file__).with_name("recorded.json"), json.dumps(record, indent=0), options)


if __name__ == "__main__":
    main()
