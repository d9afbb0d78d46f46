"""Train a digit classifier and compile it into one file for two kinds of CPU, its weights in a safetensors file.

python examples/deploy/train.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import veery
import veery.numpy as jnp
from veery import nn

BATCH = 16


def predict(params, images):
    """Probabilities of the ten digits, for images of 64 pixels from 0 to 16."""
    hidden = jnp.tanh(jnp.dot(images / 16, params["w1"]) + params["b1"])
    return nn.softmax(jnp.dot(hidden, params["w2"]) + params["b2"])


def loss(params, images, labels):
    chosen = jnp.sum(predict(params, images) * nn.one_hot(labels, 10), axis=1)
    return -jnp.mean(jnp.log(chosen + 1e-9))


@veery.jit
def step(params, images, labels):
    gradient = veery.grad(loss)(params, images, labels)
    return {name: params[name] - 0.5 * gradient[name] for name in params}


def main(folder: Path) -> None:
    digits = load_digits()
    images, labels = digits.data.astype(np.float32), digits.target.astype(np.int32)
    generator = np.random.default_rng(0)
    params = {
        "w1": 0.1 * generator.standard_normal((64, 48)).astype(np.float32),
        "b1": np.zeros(48, np.float32),
        "w2": 0.1 * generator.standard_normal((48, 10)).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }
    for _ in range(30):
        for batch in generator.permutation(1437)[: 1437 - 1437 % 64].reshape(-1, 64):
            params = step(params, images[batch], labels[batch])
    accuracy = np.mean(np.argmax(np.asarray(predict(params, images[1437:])), axis=1) == labels[1437:])

    trained = {name: jnp.asarray(value) for name, value in params.items()}  # constants of the program below

    def digits_of(images):
        return predict(trained, images)

    veery.aot.compile(
        {"predict": (digits_of, (veery.ShapeDtypeStruct((BATCH, 64), "float32"),))},
        targets=["cpu:x86-64-v3", "cpu:generic"],
        out=folder / "digits.vmfb",
        weights=folder / "digits.safetensors",
    )
    np.save(folder / "images.npy", images[-BATCH:])
    print(f"accuracy {accuracy:.3f}; wrote {folder}/digits.vmfb, digits.safetensors and images.npy")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
