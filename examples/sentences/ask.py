"""Which module of Python's library does what I want? The encoder that build.py wrote, run without veery or a compiler.

python examples/sentences/ask.py [folder] [questions]
"""

import pydoc
import re
import sys
import time
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import veery_runtime

QUESTIONS = [
    "make a file smaller",
    "send an electronic letter",
    "which day of the week is Christmas?",
    "throw dice",
    "why is my program slow?",
]


def vocabulary(folder):
    """The number of each token."""
    return {word: i for i, word in enumerate((Path(folder) / "vocab.txt").read_text(encoding="utf-8").split("\n"))}


def pieces(words, word):
    """A word as the longest tokens that it is made of, from its beginning; "[UNK]" where there are none."""
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in words:
                break
        else:
            return ["[UNK]"]
        found.append(piece)
        start = end
    return found


def encode(words, sentences):
    """Sentences as numbers of their tokens, in lower case, without accents, filled up with zeros to the longest."""
    rows = []
    for sentence in sentences:
        text = "".join(c for c in unicodedata.normalize("NFD", sentence.lower()) if unicodedata.category(c) != "Mn")
        tokens = [piece for word in re.findall(r"[^\W_]+|[^\w\s]|_", text) for piece in pieces(words, word)]
        rows.append([words[token] for token in ("[CLS]", *tokens[:254], "[SEP]")])
    out = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, numbers in zip(out, rows):
        row[: len(numbers)] = numbers
    return out


def modules():
    """The modules of Python's library, each with the first line of its documentation."""
    lines = {}
    for name in sorted(sys.stdlib_module_names):
        spec = None if name.startswith("_") or name in ("antigravity", "this") else find_spec(name)
        if spec is not None and spec.origin and spec.origin.endswith(".py"):
            lines[name] = pydoc.synopsis(spec.origin)
    return {name: line for name, line in lines.items() if line}


def main(folder, questions):
    begin = time.perf_counter()
    model, words = veery_runtime.load(Path(folder) / "encoder.vmfb"), vocabulary(folder)
    loaded, lines = time.perf_counter(), modules()
    texts = [f"{name}: {line}" for name, line in lines.items()]
    start = time.perf_counter()
    known = model.embed(encode(words, texts))
    print(f"loaded in {loaded - begin:.2f} s; {len(texts)} modules read in {time.perf_counter() - start:.2f} s")
    for question, row in zip(questions, model.embed(encode(words, questions)) @ known.T):
        print(f"\n{question}")
        for i in np.argsort(-row)[:2]:
            print(f"    {row[i]:.2f}  {texts[i]}")
    assert not {"veery", "veery_lowering", "iree.compiler"} & set(sys.modules)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".", sys.argv[2:] or QUESTIONS)
