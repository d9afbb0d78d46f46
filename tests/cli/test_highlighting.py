"""Colours of lines: what is coloured, and that a line of HTML stands alone."""

from __future__ import annotations

import re

import pytest

from veery._api.highlighting import colours, highlighted


def parts(line: str) -> list[tuple[str, str]]:
    """The class and the text of what is coloured in a line."""
    return re.findall(r'<span class="(\w+)">(.*?)</span>', line)


def test_intermediate_representations():
    (line,) = highlighted(["  %1 = stablehlo.add %0, @f : tensor<3xf32>"], "ir")
    assert parts(line) == [("nv", "%1"), ("k", "stablehlo.add"), ("nv", "%0"), ("nv", "@f"), ("kt", "tensor&lt;")]
    assert parts(highlighted(["a:f32[3] = mul b 2.0"], "ir")[0]) == [("kt", "f32[3]"), ("k", "mul")]
    assert parts(highlighted(["\tvmovups\t(%rdi), %ymm0"], "ir")[0])[0] == ("k", "vmovups")


def test_python():
    first, second, third = highlighted(['@f  # "no"', 'if x is None: """a', "<b> def"], "python")
    assert parts(first) == [("nd", "@f"), ("c1", '# "no"')]
    assert [p for p in parts(second) if p[0] not in "np"] == [("k", "if"), ("ow", "is"), ("kc", "None"), ("s2", '"""a')]
    assert parts(third) == [("s2", "&lt;b&gt; def")]  # still within the string


@pytest.mark.parametrize("language", ["python", "ir"])
@pytest.mark.parametrize("lines", [[], [""], ["", "", "a", ""], ["a <b", " c & d"]])
def test_lines_stay_lines(language, lines):
    found = highlighted(lines, language)
    assert [re.sub("<[^>]*>", "", line).replace("&lt;", "<").replace("&amp;", "&") for line in found] == lines


def test_every_coloured_class_has_a_rule():
    rules = colours("pre")
    for name in ("c1", "k", "kc", "kt", "nd", "nv", "ow", "s2"):
        assert f"pre .{name} {{ color: #" in rules
