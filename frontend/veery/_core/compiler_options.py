"""What may be asked of a compilation: by `jit(f, compiler_options={...})`, by a setting, by the environment."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from typing import Any

Pairs = tuple[tuple[str, Any], ...]

# Options of veery's own, and the values that they take. All other names are of IREE's compiler; they have dashes.
CHOICES: dict[str, tuple[Any, ...]] = {
    "optimize_for": ("speed", "latency", "throughput", "size"),
    "kernels": (True, False),
    "queue": ("auto", "inline", "threaded"),
    "autotune": (True, False),
    "compiler": ("iree", "xla", "auto"),
}
_WORDS = {"true": True, "false": False}


def pairs(options: Any) -> Pairs:
    """Options in the form in which they are kept: names with values, sorted.

    Args:
        options: a dictionary, a text such as "optimize_for=size iree-opt-level=O2", or None.

    Raises:
        ValueError: no such option, or not one of its values.

    >>> pairs("optimize_for=size --iree-opt-level=O2")
    (('iree-opt-level', 'O2'), ('optimize_for', 'size'))
    """
    if isinstance(options, str):
        items = [word.partition("=")[::2] for word in shlex.split(options)]
    elif isinstance(options, Mapping):
        items = list(options.items())
    else:
        items = list(options or ())
    return tuple(sorted((dict(_checked(name, value) for name, value in items)).items()))


def _checked(name: Any, value: Any) -> tuple[str, Any]:
    name = str(name).removeprefix("--")
    if name not in CHOICES:
        if "-" not in name:
            close = difflib.get_close_matches(name, CHOICES, n=1)
            raise ValueError(
                f"No such compile option: {name!r}{f'; did you mean {close[0]!r}?' if close else '.'} Options are "
                f"{', '.join(CHOICES)}, and those of IREE's compiler such as 'iree-opt-level'."
            )
        return name, str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, str):
        value = _WORDS.get(value.lower(), value)
    if value not in CHOICES[name]:
        known = ", ".join(map(repr, CHOICES[name]))
        raise ValueError(f"The compile option {name!r} takes one of {known}, got {value!r}.")
    return name, value


def compiler(options: Mapping[str, Any]) -> str:
    """Which compiler is asked for."""
    return str(options.get("compiler", "iree"))


def flags(options: Pairs) -> tuple[str, ...]:
    """The options of IREE's compiler among them, as it takes them."""
    return tuple(f"--{name}={value}" for name, value in options if name not in CHOICES)
