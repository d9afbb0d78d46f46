"""Writes frontend/veery/scipy/special/_tables.py; needs mpmath, which the tests do not.

python tests/scipy/record_tables.py

Each function is a Chebyshev series on each interval, of as many terms as give 18 digits; the series is sorted by powers
of t in [-1, 1], in 50 digits, and rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import mpmath as mp

TABLES = Path(__file__).parents[2] / "frontend/veery/scipy/special/_tables.py"
HEAD = '''"""Coefficients of polynomials for special functions, written by `tests/scipy/record_tables.py`.

Each tuple has polynomials of adjacent intervals. They are Chebyshev series of 18 digits, sorted by powers.
"""

from __future__ import annotations

from veery.scipy.special._polynomials import Polynomial

# fmt: off
'''
NODES = 80
mp.mp.dps = 60
Real = Callable[..., mp.mpf]


def chebyshev(fun: Real, low: mp.mpf, high: mp.mpf) -> list[mp.mpf]:
    """The coefficients that count."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    values = [fun((low + high) / 2 + (high - low) / 2 * mp.cos(a)) for a in angles]
    series = [2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles)) / NODES for j in range(NODES)]
    series[0] /= 2
    least, rest = min(map(abs, values)), mp.mpf(0)
    while rest + abs(series[-1]) < mp.mpf(10) ** -18 * least:
        rest += abs(series.pop())
    return series


def by_powers(series: Sequence[mp.mpf]) -> list[mp.mpf]:
    """The coefficients of the powers of t."""
    polynomials = [[mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]]
    while len(polynomials) < len(series):
        last, before = polynomials[-1], polynomials[-2]
        rising = [mp.mpf(0), *(2 * c for c in last)]
        polynomials.append([c - (before[i] if i < len(before) else 0) for i, c in enumerate(rising)])
    total = [mp.mpf(0)] * len(series)
    for factor, polynomial in zip(series, polynomials):
        for i, c in enumerate(polynomial):
            total[i] += factor * c
    return total


def asymptotic(term: Callable[[int], mp.mpf], count: int = 30) -> mp.mpf:
    return mp.fsum(term(n) for n in range(count))


def erfcx(u: mp.mpf) -> mp.mpf:
    x = mp.mpf("3.75") * (1 + u) / (1 - u)
    if x < 100:
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)
    series = asymptotic(lambda n: (-1) ** n * mp.fac2(2 * n - 1) / (2 * x * x) ** n, 13)
    return (1 + 2 * x) * series / (x * mp.sqrt(mp.pi))


def dawson(x: mp.mpf) -> mp.mpf:
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def dawson_far(v: mp.mpf) -> mp.mpf:
    x = 1 / mp.sqrt(v)
    return 2 * x * dawson(x) if x < 60 else asymptotic(lambda n: mp.fac2(2 * n - 1) * (v / 2) ** n, 21)


ROOT = mp.findroot(mp.ei, 0.3725)


def ei_near(x: mp.mpf) -> mp.mpf:
    return (mp.ei(x) - mp.log(x / ROOT)) / (x - ROOT)


def ei_far(v: mp.mpf) -> mp.mpf:
    x = 1 / v
    return mp.re(x * mp.exp(-x) * mp.ei(x)) if x < 200 else asymptotic(lambda n: mp.factorial(n) * v**n, 41)


def e1_far(v: mp.mpf) -> mp.mpf:
    x = 1 / v
    return x * mp.exp(x) * mp.e1(x) if x < 200 else asymptotic(lambda n: (-1) ** n * mp.factorial(n) * v**n, 41)


def sici_far(v: mp.mpf, part: int) -> mp.mpf:
    x = 1 / mp.sqrt(v)
    if x > 150:
        return asymptotic(lambda n: (-1) ** n * mp.factorial(2 * n + part) * v**n, 26)
    sine, cosine, rest = mp.sin(x), mp.cos(x), mp.pi / 2 - mp.si(x)
    return x * (rest * cosine + mp.ci(x) * sine) if part == 0 else x * x * (rest * sine - mp.ci(x) * cosine)


def fresnel_far(v: mp.mpf, part: int) -> mp.mpf:
    x = 1 / mp.root(v, 4)
    if x > 12:
        return asymptotic(lambda n: (-1) ** n * mp.fac2(4 * n - 1 + 2 * part) / (mp.pi * x * x) ** (2 * n), 31)
    sine, cosine = mp.sin(mp.pi * x * x / 2), mp.cos(mp.pi * x * x / 2)
    s, c = mp.mpf(1) / 2 - mp.fresnels(x), mp.mpf(1) / 2 - mp.fresnelc(x)
    return mp.pi * x * (s * cosine - c * sine) if part == 0 else mp.pi**2 * x**3 * (s * sine + c * cosine)


def ndtri(r: mp.mpf) -> mp.mpf:
    x = r - mp.log(r * mp.sqrt(2 * mp.pi)) / r if r > 2.5 else mp.mpf(1)
    for _ in range(60):
        tail = mp.erfc(x / mp.sqrt(2)) / 2
        step = (mp.log(tail) + r * r / 2) * tail * mp.sqrt(2 * mp.pi) / mp.exp(-x * x / 2)
        x += step
        if abs(step) < mp.mpf(10) ** -40:
            break
    return x / r


# Names, functions, the ends of the intervals, and what is said of them.
# fmt: off
ROWS: list[tuple[str, Real, Sequence[str], str]] = [
    ("GAMMA", lambda x: mp.gamma(1 + x), "0 1".split(), "Gamma(1 + x)"),
    ("ERFCX", erfcx, "-1 1".split(), "(1 + 2 z) exp(z^2) erfc(z) at z = 3.75 (1 + x) / (1 - x)"),
    ("DAWSN_NEAR", lambda y: dawson(mp.sqrt(y)) / mp.sqrt(y), "0 2 7 16".split(),
     "Dawson's integral at z, over z, of x = z^2"),
    ("DAWSN_FAR", dawson_far, "0 1/36 1/16".split(), "Dawson's integral at z, times 2 z, of x = 1 / z^2"),
    ("EI_NEAR", ei_near, "0 3 6".split(), "(Ei(x) - log(x / root)) / (x - root)"),
    ("EI_FAR", ei_far, "0 1/48 1/24 1/12 1/6".split(), "z exp(-z) Ei(z) of x = 1 / z"),
    ("E1_NEAR", lambda x: (mp.e1(x) + mp.euler + mp.log(x)) / x, "0 1".split(),
     "(E1(x) + log(x) + Euler's constant) / x"),
    ("E1_FAR", e1_far, "0 1/4 1".split(), "z exp(z) E1(z) of x = 1 / z"),
    ("SI", lambda y: mp.si(mp.sqrt(y)) / mp.sqrt(y), "0 16".split(), "Si(z) / z of x = z^2"),
    ("CI", lambda y: (mp.ci(mp.sqrt(y)) - mp.log(y) / 2 - mp.euler) / y, "0 16".split(),
     "(Ci(z) - log(z) - Euler's constant) / z^2 of x = z^2"),
    ("SICI_F", lambda v: sici_far(v, 0), "0 1/64 1/16".split(),
     "z f(z) of x = 1 / z^2, where Si = pi/2 - f cos - g sin and Ci = f sin - g cos"),
    ("SICI_G", lambda v: sici_far(v, 1), "0 1/64 1/16".split(), "z^2 g(z) of x = 1 / z^2"),
    ("FRESNEL_S", lambda y: mp.fresnels(mp.root(y, 4)) / mp.root(y, 4) ** 3, "0 81/16".split(),
     "S(z) / z^3 of x = z^4"),
    ("FRESNEL_C", lambda y: mp.fresnelc(mp.root(y, 4)) / mp.root(y, 4), "0 81/16".split(), "C(z) / z of x = z^4"),
    ("FRESNEL_F", lambda v: fresnel_far(v, 0), "0 16/625 16/81".split(),
     "pi z f(z) of x = 1 / z^4, where S = 1/2 - f cos - g sin, C = 1/2 + f sin - g cos at pi z^2 / 2"),
    ("FRESNEL_G", lambda v: fresnel_far(v, 1), "0 16/625 16/81".split(), "pi^2 z^3 g(z) of x = 1 / z^4"),
    ("NDTRI", ndtri, "1.9 3 6 14 39".split(), "z / x where Phi(-z) = exp(-x^2 / 2)"),
]
# fmt: on


def lines_of(numbers: Sequence[mp.mpf]) -> list[str]:
    lines = [" " * 7]
    for number in numbers:
        text = f" {float(number)!r},"
        if len(lines[-1]) + len(text) > 119:
            lines.append(" " * 7)
        lines[-1] += text
    return lines


def main() -> None:
    text = HEAD.splitlines()
    for name, fun, ends, about in ROWS:
        text += [f"# {about}", f"{name} = ("]
        places = [mp.fraction(*map(int, e.split("/"))) + mp.mpf(0) if "/" in e else mp.mpf(e) for e in ends]
        for low, high in zip(places, places[1:]):
            text.append(f"    Polynomial({float(low)!r}, {float(high)!r}, (")
            text += lines_of(by_powers(chebyshev(fun, low, high)))
            text.append("    )),")
        text.append(")")
    TABLES.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
