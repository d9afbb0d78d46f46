"""A tour of veery on real data: train a digit classifier, look inside, and save it as a program that needs no compiler.

python examples/tour.py [--epochs 12] [--quiet]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits

import veery
import veery.numpy as jnp
import veery_runtime
from veery import nn, random


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """scikit-learn's 1,797 scanned digits of 8x8 pixels: 1,437 to train on, 360 to test."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = digits.data[order].astype(np.float32), digits.target[order].astype(np.int32)
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


@veery.jit
def standardise(images, mean, deviation):
    """Pixels with mean 0 and deviation 1 over the training images."""
    return (images - mean) / jnp.where(deviation > 0, deviation, 1)


def initial_parameters(key, sizes=(64, 128, 10)):
    """Weights and biases of a two-layer network."""
    layers = []
    for fan_in, fan_out, layer_key in zip(sizes[:-1], sizes[1:], random.split(key, len(sizes) - 1)):
        weights = random.normal(layer_key, (fan_in, fan_out)) * jnp.sqrt(2.0 / fan_in)
        layers.append({"weights": weights, "bias": jnp.zeros(fan_out)})
    return layers


def logits(layers, images):
    hidden = nn.relu(images @ layers[0]["weights"] + layers[0]["bias"])
    return hidden @ layers[1]["weights"] + layers[1]["bias"]


def loss(layers, images, labels):
    """Mean cross-entropy."""
    return -jnp.mean(jnp.sum(nn.log_softmax(logits(layers, images)) * nn.one_hot(labels, 10), axis=-1))


@veery.jit
def train_step(layers, velocity, images, labels, rate):
    """One step of gradient descent with momentum."""
    value, gradient = veery.value_and_grad(loss)(layers, images, labels)
    velocity = veery.tree.map(lambda v, g: 0.9 * v - rate * g, velocity, gradient)
    layers = veery.tree.map(jnp.add, layers, velocity)
    return layers, velocity, value


@veery.jit
def predict(layers, images):
    """The most likely digit of each image."""
    return jnp.argmax(logits(layers, images), axis=-1)


def train(layers, images, labels, epochs: int, batch_size: int, console: Console):
    """Train by minibatches; returns the parameters and the median time of a step in milliseconds."""
    velocity = veery.tree.map(jnp.zeros_like, layers)
    steps_per_epoch = len(images) // batch_size
    generator = np.random.default_rng(1)
    times = []
    for _ in track(range(epochs), description="Training", console=console, transient=True):
        order = generator.permutation(len(images))
        for step in range(steps_per_epoch):
            batch = order[step * batch_size : (step + 1) * batch_size]
            start = time.perf_counter()
            layers, velocity, value = train_step(layers, velocity, images[batch], labels[batch], 0.03)
            value.block_until_ready()
            times.append(time.perf_counter() - start)
    return layers, float(value), 1e3 * float(np.median(times))


def save_and_check(layers, images, expected, console: Console) -> None:
    """Write `predict` with its trained weights to a file, and run that file with the runtime alone."""
    weights = veery.tree.map(jnp.asarray, layers)
    classify = veery.jit(lambda images: predict(weights, images))
    compiled = classify.lower(images).compile()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.vmfb"
        compiled.save(path)
        program = veery_runtime.load(path)  # needs neither veery nor a compiler
        np.testing.assert_array_equal(program(np.asarray(images)), expected)
        console.print(f"saved {path.name}: {path.stat().st_size / 1024:.0f} KiB; loaded again, it predicts the same")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12, help="passes over the training images (default: 12)")
    parser.add_argument("--batch-size", type=int, default=64, help="images a step (default: 64)")
    parser.add_argument("--quiet", action="store_true", help="leave out the jaxpr and the StableHLO")
    options = parser.parse_args()
    console = Console()
    begin = time.perf_counter()

    train_images, train_labels, test_images, test_labels = load_data()
    mean, deviation = jnp.mean(train_images, axis=0), jnp.std(train_images, axis=0)
    images = np.asarray(standardise(train_images, mean, deviation))
    test = standardise(test_images, mean, deviation)
    console.rule(f"digits: {len(images)} images to train on, {len(test_images)} to test, on {veery.devices()[0]}")

    layers = initial_parameters(random.key(0))
    layers, value, step_time = train(layers, images, train_labels, options.epochs, options.batch_size, console)
    accuracy = float(jnp.mean(predict(layers, test) == test_labels))
    console.print(f"loss {value:.4f}, test accuracy [bold]{100 * accuracy:.1f}%[/bold], {step_time:.2f} ms a step")

    console.rule("gradients of single examples: vmap(grad(loss))")
    each = veery.jit(veery.vmap(veery.grad(loss), in_axes=(None, 0, 0)))
    gradients = each(layers, images[:256], train_labels[:256])
    norms = jnp.sqrt(sum(jnp.sum(g**2, axis=tuple(range(1, g.ndim))) for g in veery.tree.leaves(gradients)))
    hardest = np.argsort(np.asarray(norms))[-3:][::-1]
    shape = gradients[0]["weights"].shape
    console.print(
        f"weights: {shape}; hardest of 256 images: {hardest.tolist()}, gradient norms {np.asarray(norms)[hardest]}"
    )

    if not options.quiet:
        console.rule("what is compiled: the jaxpr of loss ...")
        console.print(str(veery.make_jaxpr(loss)(layers, images[:2], train_labels[:2])), highlight=False, markup=False)
        console.rule("... and the StableHLO of predict")
        console.print(predict.lower(layers, images[:2]).as_text(), highlight=False, markup=False)

    console.rule("ahead of time")
    save_and_check(layers, test, np.asarray(predict(layers, test)), console)
    console.print(f"total {time.perf_counter() - begin:.1f} s")
    if accuracy < 0.95:
        raise SystemExit(f"test accuracy {accuracy:.3f} is below 0.95")


if __name__ == "__main__":
    main()
