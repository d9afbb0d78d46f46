"""Random loops and branches that write parts of arrays and read others, before and after; of integers, so exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax, numpy as jnp

State = dict[str, Any]  # arrays a, b [n] and m [4, n / 4], numbers i and s
Change = Callable[[State], State]
_PRIME = 1009
_CONTROL = ("cond", "switch", "fori", "while")
_CHANGES = (
    "set",
    "add",
    "cell",
    "row",
    "slice",
    "number",
    "swap",
    "roll",
    "all",
    "exchange",
    "where",
    "scatter",
    "old",
)


class Drawing:
    """Draws a program.

    Args:
        seed: what it follows from.
        n: elements of an array, a multiple of 4.
    """

    def __init__(self, seed: int, n: int):
        self._rng, self._n = np.random.default_rng(seed), n

    def program(self) -> Callable[..., Any]:
        """A function of what `arguments` gives."""
        block, trips, kept = self._block(0), int(self._rng.integers(2, 6)), self._pick("a", "b", "m", "s")
        before, after = self._chance(0.3), int(self._rng.integers(3))

        def run(a: Any, b: Any, m: Any, s: Any) -> Any:
            state = {"a": a * 2 if before else a, "b": b, "m": m, "i": jnp.int32(0), "s": s}
            start = state["a"]

            def body(old: State, i: Any) -> tuple[State, Any]:
                new = block({**old, "i": i})
                y = {"a": old["a"][i], "b": new["b"], "m": old["m"][0], "s": new["s"]}[kept]
                return new, y

            state, ys = lax.scan(body, state, jnp.arange(trips, dtype=jnp.int32))
            if after == 2:
                return state["b"].sum(), ys
            return [state[k] for k in "abms"], ys, start if after else ()

        return run

    def _pick(self, *options: Any) -> Any:
        return options[int(self._rng.integers(len(options)))]

    def _chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def _block(self, depth: int) -> Change:
        changes = [self._change(depth) for _ in range(int(self._rng.integers(1, 4)))]

        def block(t: State) -> State:
            for change in changes:
                t = change(t)
            return {k: jnp.asarray(x, jnp.int32) for k, x in t.items()}

        return block

    def _number(self, depth: int = 0) -> Callable[[State], Any]:
        kind = self._pick("i", "s", "a", "b", "any", *(("m", "sum", "product", "total") if depth < 2 else ()))
        n = self._n
        if kind in "is":
            return lambda t: t[kind]
        if kind == "any":
            value = int(self._rng.integers(-3, n + 2))
            return lambda t: jnp.int32(value)
        if kind == "total":
            return lambda t: t["b"].sum() % _PRIME
        x = self._number(depth + 1)
        if kind in "ab":
            return lambda t: t[kind][x(t) % n]
        y = self._number(depth + 1)
        if kind == "m":
            return lambda t: t["m"][x(t) % 4, y(t) % (n // 4)]
        return (lambda t: (x(t) + y(t)) % _PRIME) if kind == "sum" else (lambda t: (x(t) * y(t)) % _PRIME)

    def _test(self) -> Callable[[State], Any]:
        x, y, kind = self._number(1), self._number(1), int(self._rng.integers(3))
        return [lambda t: x(t) % 2 == 0, lambda t: x(t) < y(t), lambda t: (x(t) + y(t)) % 3 != 0][kind]

    def _change(self, depth: int) -> Change:
        kind = self._pick(*_CHANGES, *(_CONTROL if depth < 3 else ()), *(_CONTROL if depth < 2 else ()))
        return self._control(kind, depth) if kind in _CONTROL else self._write(kind)

    def _control(self, kind: str, depth: int) -> Change:
        block, test, x = self._block(depth + 1), self._test(), self._number()
        others = [self._block(depth + 1) if self._chance(0.5) else lambda t: t for _ in range(2)]
        trips = int(self._rng.integers(4))
        if kind == "cond":
            return lambda t: lax.cond(test(t), block, others[0], t)
        if kind == "switch":
            return lambda t: lax.switch(x(t) % 4 - 1, [others[0], block, others[1]], t)
        if kind == "fori":
            return lambda t: {**lax.fori_loop(0, trips, lambda j, t: block({**t, "i": j}), t), "i": t["i"]}

        def loop(t: State) -> State:
            goes_on = lambda c: (c[1] < 3) & test(c[0])
            return lax.while_loop(goes_on, lambda c: (block(c[0]), c[1] + 1), (t, jnp.int32(0)))[0]

        return loop

    def _write(self, kind: str) -> Change:
        n, x, y, z, test = self._n, self._number(), self._number(), self._number(1), self._test()
        name, other = self._pick("ab", "ba")
        mode, width, flag = self._pick(None, "drop", "clip"), int(self._rng.integers(1, 4)), self._chance(0.5)

        def put(t: State, value: Any) -> State:
            return {**t, name: value}

        def scattered(t: State) -> State:
            at = t[name].at[jnp.stack([z(t) % n, (z(t) + 7) % n, jnp.int32(n + 3)])]
            v = jnp.array([5, 6, 7], jnp.int32) + t["i"]
            return put(t, at.max(v) if mode is None else at.add(v) if flag else at.set(v))

        def chosen(t: State) -> State:
            new = t[name].at[z(t) % n].set(t["s"])
            new = new.at[(z(t) + 3) % n].add(new[z(t) % n]) if width > 1 else new
            return put(t, jnp.where(test(t), *((new, t[name]) if flag else (t[name], new))))

        def swapped(t: State) -> State:
            i, j = x(t) % n, y(t) % n
            return put(t, t[name].at[i].set(t[name][j]).at[j].set(t[name][i]))

        def read_afterwards(t: State) -> State:
            new = t[name].at[z(t) % n].set(t["s"])
            return {**t, name: new, "s": (t["s"] + t[name][x(t) % n] * 2 + new[y(t) % n]) % _PRIME}

        def moved(t: State) -> State:
            part = lax.dynamic_slice(t[other if flag else name], (y(t) % n,), (width,))
            return put(t, lax.dynamic_update_slice(t[name], (part * 3 + 1) % _PRIME, (x(t) % n,)))

        def row(t: State) -> State:
            return {**t, "m": t["m"].at[x(t) % 4].set(t[name][: n // 4] if flag else t["m"][y(t) % 4] + 1)}

        changes: dict[str, Change] = {
            "set": lambda t: put(t, t[name].at[x(t)].set(y(t) % _PRIME, mode=mode)),
            "add": lambda t: put(t, t[name].at[x(t) % n].add(y(t) % 7)),
            "cell": lambda t: {**t, "m": t["m"].at[x(t) % 4, y(t) % (n // 4)].set(t["s"])},
            "number": lambda t: {**t, "s": (t["s"] * 5 + x(t)) % _PRIME},
            "roll": lambda t: put(t, jnp.roll(t[name], 1)),
            "all": lambda t: put(t, (t[name] * 3 + z(t)) % _PRIME),
            "exchange": lambda t: {**t, "a": t["b"], "b": t["a"]},
        }
        changes |= {"row": row, "slice": moved, "swap": swapped, "where": chosen, "scatter": scattered}
        return (changes | {"old": read_afterwards})[kind]


def arguments(n: int) -> tuple[np.ndarray, ...]:
    """Arrays of n elements, a matrix, and a number."""
    rng = np.random.default_rng(5)
    arrays = [rng.integers(0, _PRIME, shape).astype(np.int32) for shape in ((n,), (n,), (4, n // 4))]
    return (*arrays, np.array(3, np.int32))
