"""Programs of IFRT, the interface of XLA's runtimes. There are none here: a library may import this, to go without."""

from __future__ import annotations

from typing import NoReturn


class _Programs:
    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"there is no {name} of IFRT: veery runs programs by IREE's runtime, without XLA's")


ifrt_programs = _Programs()
