"""What the host's processor can do, as far as compiled code depends on it."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

# A program for a CPU that the host is not loads without complaint and dies of SIGILL when it is run, so the features
# that code generators use are compared first. The kernel lists many more flags that code does not depend on.
_X86 = frozenset(
    "sse3 pni ssse3 sse4_1 sse4_2 sse4a popcnt avx avx2 fma fma4 f16c bmi1 bmi2 abm lzcnt movbe aes vaes pclmulqdq"
    " vpclmulqdq gfni sha_ni adx rdrnd rdseed xsave xsavec xsaveopt cx16 lahf_lm tbm xop avx_vnni avx_ifma"
    " avx_vnni_int8 avx_ne_convert avx512f avx512cd avx512bw avx512dq avx512vl avx512ifma avx512vbmi avx512_vbmi2"
    " avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_bf16 avx512_fp16 avx512_vp2intersect amx_tile amx_int8 amx_bf16"
    " amx_fp16".split()
)
_ARM = frozenset(
    "fp asimd aes pmull sha1 sha2 sha3 sha512 crc32 atomics fphp asimdhp asimdrdm jscvt fcma lrcpc asimddp asimdfhm sve"
    " sve2 svei8mm svebf16 svef64mm i8mm bf16 sme sme2 rcpc flagm dit".split()
)
_RELEVANT = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


def architecture() -> str:
    """The machine's name in lower case, e.g. "x86_64"."""
    return platform.machine().lower()


def relevant(features: Iterable[str], machine: str) -> list[str]:
    """Those of `features` that compiled code for `machine` may use, sorted."""
    return sorted(_RELEVANT.get(machine, frozenset()).intersection(features))


@cache
def features() -> tuple[str, ...]:
    """The host's features that compiled code may use; empty where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return tuple(relevant(value.split(), architecture()))
    return ()
