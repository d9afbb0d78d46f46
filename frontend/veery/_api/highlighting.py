"""The colours of source code and of compilers' text in a page, by Pygments."""

from __future__ import annotations

from collections.abc import Sequence

import pygments
from pygments.formatters import HtmlFormatter
from pygments.lexer import RegexLexer
from pygments.lexers import PythonLexer
from pygments.style import Style
from pygments.token import Comment, Keyword, Name, Operator, String, Text


class IRLexer(RegexLexer):
    """jaxprs, MLIR and machine code, of which Pygments has no lexer, or none for all: values, types, operations."""

    name = "IR"
    aliases = ["ir"]
    tokens = {
        "root": [
            (r"%[\w$.#:-]+|@[\w$.]+", Name.Variable),
            (r"!?\b(?:tensor|vector|memref|[\w.]*dispatch\.tensor)<|\b[a-z]{1,2}\d+\[[^]\n]*\]", Keyword.Type),
            (r"\b[a-z_]\w*(?:\.\w+)+|(?<== )[a-z_]\w*|(?<=^\t)[a-z.]\w*", Keyword),
            (r"\w+|\s+|.", Text),
        ]
    }


class PageStyle(Style):
    """The same four colours in every stage."""

    _values, _types, _operations = "#7a3e9d", "#0b6e4f", "#1f5fbf"
    styles = {
        Comment: "#98a2b0",
        String: _types,
        Keyword: _operations,
        Operator.Word: _operations,
        Keyword.Type: _types,
        Keyword.Constant: _values,
        Name.Decorator: _values,
        Name.Variable: _values,
    }


_LEXERS = {"python": PythonLexer, "ir": IRLexer}
_FORMATTER = HtmlFormatter(style=PageStyle, nowrap=True)


def highlighted(lines: Sequence[str], language: str) -> list[str]:
    """Lines of "python" or "ir" as HTML, each complete in itself.

    >>> highlighted(["%0 = stablehlo.add %a, %b"], "ir")[0][:48]
    '<span class="nv">%0</span> = <span class="k">sta'
    """
    lexer = _LEXERS[language](stripnl=False, ensurenl=False)
    text = "".join(f"{line}\n" for line in lines)
    return pygments.highlight(text, lexer, _FORMATTER).split("\n")[:-1]


def colours(selector: str) -> str:
    """The rules of CSS that colour highlighted lines within the elements of a selector."""
    return "\n".join(_FORMATTER.get_token_style_defs(selector))
