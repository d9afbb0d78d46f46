"""threefry2x32 and keys."""

from __future__ import annotations

import numpy as np
from support.jaxpr_graphs import Graph


def test_known_answers() -> None:
    """The vectors of the Random123 distribution."""
    g = Graph()
    vectors = [
        ([0, 0], [0, 0], [0x6B200159, 0x99BA4EFE]),
        ([0xFFFFFFFF] * 2, [0xFFFFFFFF] * 2, [0x1CB996FC, 0xBB002BE7]),
        ([0x13198A2E, 0x03707344], [0x243F6A88, 0x85A308D3], [0xC4923A9C, 0x483DF7A0]),
    ]
    for key, counter, expected in vectors:
        words = [g.input(np.array([word], np.uint32)) for word in (*key, *counter)]
        for i, out in enumerate(g.ops("threefry2x32", words, [((1,), np.uint32)] * 2)):
            g.check("threefry", out, np.array([expected[i]], np.uint32))
    g.run()


def test_keys_are_their_words() -> None:
    g = Graph()
    words = np.array([[1, 2], [3, 0xFFFFFFFF]], np.uint32)
    key = g.op("random_wrap", g.input(words), out=(2,), of=np.uint64, impl=None)
    g.check("wrap", key, np.array([1 + (2 << 32), 3 + (0xFFFFFFFF << 32)], np.uint64))
    g.check("unwrap", g.op("random_unwrap", key, out=(2, 2), of=np.uint32), words)
    g.run()
