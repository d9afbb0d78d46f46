"""Where somebody speaks: a published network with weights from a safetensors file, one program for any length of sound.

The network is Silero VAD for 16 kHz (MIT licence); its package holds the file. Nothing is needed of what the package
depends on (PyTorch), so install it without:

    pip install --no-deps silero-vad
    python examples/voice.py [folder to write into]
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np

import veery
import veery.numpy as jnp
import veery_runtime
from veery import export, lax, nn

RATE, CHUNK, CONTEXT = 16_000, 512, 64


def convolved(x, params, name, stride=1, padding=1):
    """A convolution of a sequence x (time, features), by weights (to, from, width) as PyTorch has them."""
    layout = ("NHC", "OIH", "NHC")
    kernel = params[f"{name}.weight"]
    out = lax.conv_general_dilated(x[None], kernel, (stride,), [(padding,) * 2], dimension_numbers=layout)
    return out[0] + params.get(f"{name}.bias", 0)


def step(params, state, samples):
    """The network's state after a chunk of samples, and the probability that they are speech."""
    hidden, cell = state
    samples = jnp.pad(samples, (0, CONTEXT), mode="reflect")[:, None]
    waves = convolved(samples, params, "stft_conv", 128, 0)
    x = jnp.sqrt(waves[:, :129] ** 2 + waves[:, 129:] ** 2)  # amplitudes of 129 frequencies
    for name, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)):
        x = nn.relu(convolved(x, params, name, stride))
    gates = sum(
        params[f"lstm_cell.weight_{kind}"] @ y + params[f"lstm_cell.bias_{kind}"]
        for kind, y in (("ih", x[0]), ("hh", hidden))
    )
    let_in, keep, new, out = jnp.split(gates, 4)
    cell = nn.sigmoid(keep) * cell + nn.sigmoid(let_in) * jnp.tanh(new)
    hidden = nn.sigmoid(out) * jnp.tanh(cell)
    return (hidden, cell), nn.sigmoid(convolved(nn.relu(hidden)[None], params, "final_conv", 1, 0))[0, 0]


def speech(params, chunks):
    """The probability of speech in each of the chunks of a sound (number, 512), each seen with the end of the last."""
    before = jnp.concatenate([jnp.zeros((1, CONTEXT)), chunks[:-1, -CONTEXT:]])
    start = jnp.zeros(128), jnp.zeros(128)
    return lax.scan(lambda state, x: step(params, state, x), start, jnp.concatenate([before, chunks], 1))[1]


def sound():
    """A second of faint noise, a second like a voice that says a, i, u, and a second of noise."""
    generator = np.random.default_rng(0)
    t = np.arange(RATE) / RATE
    pulses = np.diff(np.floor(np.cumsum(120 + 30 * np.sin(5 * np.pi * t)) / RATE), prepend=0)
    vowels = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240))  # the resonances of the throat, in Hz
    spoken = []
    for part, resonances in zip(np.array_split(pulses, 3), vowels):
        spectrum = np.fft.rfft(part)
        frequencies = np.fft.rfftfreq(len(part), 1 / RATE)
        for f in resonances:
            spectrum = spectrum / (1 + 1j * (frequencies - f) / 40)
        wave = np.fft.irfft(spectrum, len(part)) * np.hanning(len(part))
        spoken.append(0.3 * wave / np.abs(wave).max())
    silence = np.zeros(RATE)
    samples = np.concatenate([silence, *spoken, silence]) + 0.003 * generator.standard_normal(3 * RATE)
    return samples[: len(samples) // CHUNK * CHUNK].astype(np.float32).reshape(-1, CHUNK)


def main(folder: Path) -> None:
    package = importlib.util.find_spec("silero_vad")
    if package is None or package.origin is None:
        print("This example needs the weights of Silero VAD: pip install --no-deps silero-vad")
        return
    weights = veery_runtime.weights.read(Path(package.origin).parent / "data" / "silero_vad_16k.safetensors")
    params = {name: jnp.asarray(array) for name, array in weights.items()}  # constants of the program below

    chunks = veery.ShapeDtypeStruct(export.symbolic_shape("n, 512"), "float32")
    path = folder / "voice.vmfb"
    veery.aot.compile(
        {"speech": (lambda chunks: speech(params, chunks), (chunks,))}, out=path, weights=folder / "voice.safetensors"
    )
    model = veery_runtime.load(path)
    for seconds in (1, 3):
        heard = sound()[: seconds * RATE // CHUNK]
        probability = model.speech(heard)
        print(f"{seconds} s: " + "".join(" .:-=+*#%@"[min(9, int(10 * p))] for p in probability))
    times = np.flatnonzero(probability > 0.5) * CHUNK / RATE
    print(f"speech from {times[0]:.2f} s to {times[-1]:.2f} s; wrote {path}, {path.stat().st_size:,} bytes")
    assert abs(times[0] - 1) < 0.2 and abs(times[-1] - 2) < 0.2


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
