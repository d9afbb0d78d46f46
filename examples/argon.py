"""Liquid argon: 864 atoms that attract and repel each other, as in the first such simulation (Rahman, 1964).

Forces are the gradient of the energy; 2000 steps of 10 fs at 94.4 K are one loop. How atoms lie around an atom, and how
fast they wander, are compared with the article, and drawn.

Processor time 21 s, 20 s with programs on disk; JAX 19 s.

python examples/argon.py [argon.svg]
"""

import veery.as_jax  # without this line it runs on JAX

import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

# Lengths are in units of SIGMA, energies of Boltzmann's constant times 120 K; an atom's mass is 1.
ATOMS, SIGMA, TAU = 864, 3.4, 2.152  # angstrom, ps
SIDE, CUT, TEMPERATURE, DT = 10.229, 2.5, 94.4 / 120, 0.01 / TAU
EVERY = 10  # steps between the positions that are kept


def apart(positions):
    """The squared distances of all pairs in a box that repeats itself; an atom is far from itself."""
    d = positions[:, None] - positions[None]
    d = d - SIDE * jnp.round(d / SIDE)
    return jnp.sum(d**2, axis=-1) + SIDE**2 * jnp.eye(ATOMS)


def energy(positions):
    """The sum of 4 (r**-12 - r**-6) over the pairs nearer than CUT."""
    attraction = apart(positions) ** -3
    return 2 * jnp.sum(jnp.where(attraction > CUT**-6, attraction**2 - attraction - (CUT**-12 - CUT**-6), 0))


def force(positions):
    return -jax.grad(energy)(positions)


def step(state, _):
    """Half a step of the velocities, a step of the positions, half a step of the velocities (Verlet)."""
    positions, velocities, forces = state
    velocities = velocities + 0.5 * DT * forces
    positions = positions + DT * velocities
    forces = force(positions)
    return (positions, velocities + 0.5 * DT * forces, forces), None


def stretch(state, _):
    """EVERY steps, and what there is to know after them."""
    state, _ = jax.lax.scan(step, state, length=EVERY)
    positions, velocities, _ = state
    return state, (positions, jnp.sum(velocities**2) / (3 * ATOMS), energy(positions) + 0.5 * jnp.sum(velocities**2))


def warm(state, _):
    """A stretch after which the velocities are scaled to the temperature."""
    (positions, velocities, forces), (_, temperature, _) = stretch(state, None)
    return (positions, velocities * jnp.sqrt(TEMPERATURE / temperature), forces), None


@jax.jit
def simulate(positions, velocities):
    state = positions, velocities, force(positions)
    state, _ = jax.lax.scan(warm, state, length=60)
    return jax.lax.scan(stretch, state, length=140)[1]


@jax.jit
def neighbours(frames):
    """How many times as many atoms as in a gas are at each distance, in shells of 0.05, up to half the box."""
    shells = int(SIDE / 2 / 0.05)

    def count(positions):
        return jnp.bincount(jnp.int32(jnp.sqrt(apart(positions)) / 0.05).ravel(), length=shells + 1)[:-1]

    counts = jax.lax.map(count, frames).sum(axis=0) / (len(frames) * ATOMS)
    edges = 0.05 * jnp.arange(shells + 1)
    return (edges[1:] + edges[:-1]) / 2, counts / (4 / 3 * jnp.pi * jnp.diff(edges**3) * ATOMS / SIDE**3)


def picture(frames, r, g):
    """A slice of the liquid with the ways that its atoms took, and g(r), as SVG."""
    scale, frames = 46, np.asarray(frames)
    parts = []
    home = frames[-1] - SIDE * np.floor(frames[-1] / SIDE)
    for i in np.argsort(home[:, 2]):
        depth = home[i, 2] / 2.5
        if depth > 1:
            continue
        way = scale * (frames[-40:, i] - frames[-1, i] + home[i])[:, :2]
        colour = f"hsl({215 - 190 * depth:.0f} 70% {38 + 22 * depth:.0f}%)"
        points = " ".join(f"{x:.0f},{y:.0f}" for x, y in way)
        parts.append(f'<polyline points="{points}" stroke="{colour}" opacity=".5"/>')
        x, y = scale * home[i, :2]
        parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{8 + 6 * depth:.1f}" fill="{colour}" opacity=".85"/>')
    width = scale * SIDE
    angstrom, high = (lambda x: 50 + x * 32), (lambda y: width - 30 - y * 125)
    axes = [f'<path d="M50,{high(3.2):.0f} V{high(0):.0f} H{angstrom(17.5):.0f}" class="axis"/>']
    for x in range(0, 18, 5):
        axes.append(f'<text x="{angstrom(x)}" y="{high(0) + 20:.0f}">{x}{" Å" if x == 15 else ""}</text>')
    for y in (1, 2, 3):
        axes.append(f'<text x="35" y="{high(y) + 5:.0f}">{y}</text>')
    for x in (3.7, 7.0, 10.4):
        axes.append(f'<path d="M{angstrom(x):.0f},{high(0):.0f} V{high(3.1):.0f}" class="seen"/>')
    curve = " ".join(f"{angstrom(SIGMA * x):.1f},{high(y):.1f}" for x, y in zip(r, g))
    axes.append(f'<polyline points="{curve}" stroke="#c33" stroke-width="2.5"/>')
    axes.append(f'<text x="{angstrom(14):.0f}" y="{high(2.6):.0f}">neighbours at each distance;</text>')
    axes.append(f'<text x="{angstrom(14):.0f}" y="{high(2.6) + 20:.0f}">dashed: the peaks of 1964</text>')
    style = "text{font:15px sans-serif;text-anchor:middle;fill:#444} polyline,path{fill:none}"
    style += " .axis{stroke:#444} .seen{stroke:#888;stroke-dasharray:4 4}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-15 -15 {2 * width + 200:.0f} {width + 30:.0f}">',
            f'<style>{style}</style><rect x="-15" y="-15" width="100%" height="100%" fill="#fff"/>',
            f'<clipPath id="box"><rect width="{width:.0f}" height="{width:.0f}"/></clipPath>',
            f'<rect width="{width:.0f}" height="{width:.0f}" fill="#f4f6fa"/>',
            f'<g clip-path="url(#box)">{"".join(parts)}</g>',
            f'<g transform="translate({width + 30:.0f})">{"".join(axes)}</g>',
            "</svg>\n",
        ]
    )


def main(path):
    begin = time.perf_counter()
    corner = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) / 2  # a crystal, which melts
    cells = np.stack(np.meshgrid(*3 * [np.arange(6)], indexing="ij"), axis=-1).reshape(-1, 1, 3)
    positions = ((cells + corner).reshape(-1, 3) * SIDE / 6).astype(np.float32)
    velocities = np.random.default_rng(0).normal(0, np.sqrt(2 * TEMPERATURE), positions.shape).astype(np.float32)
    frames, temperatures, energies = simulate(positions, velocities - velocities.mean(axis=0))
    r, g = (np.asarray(x) for x in neighbours(frames))

    wandered = np.asarray(jnp.mean(jnp.sum((frames - frames[0]) ** 2, axis=-1), axis=-1)) * SIGMA**2
    times = np.arange(len(frames)) * EVERY * 0.01
    speed = np.polyfit(times[40:], wandered[40:], 1)[0] / 6 * 10  # from square angstrom a ps to 1e-5 square cm a second
    first, second = (SIGMA * r[part][np.argmax(g[part])] for part in (r < 1.6, (1.6 < r) & (r < 2.6)))
    drift = abs(float(energies[-1] / energies[0]) - 1)
    Path(path).write_text(picture(frames, r, g))
    kelvin, span = 120 * float(temperatures.mean()), len(times) * EVERY * 0.01
    print(f"{ATOMS} atoms, {span:.0f} ps at {kelvin:.1f} K; energy kept to {drift:.0e}")
    print("                        here     1964")
    print(f"nearest neighbours    {first:5.1f} A   3.7 A")
    print(f"next ones             {second:5.1f} A   7.0 A")
    print(f"diffusion (cm2/s)   {speed:5.2f}e-5   2.43e-5")
    print(f"wrote {path}; total {time.perf_counter() - begin:.1f} s")
    assert abs(first - 3.7) < 0.1 and abs(second - 7) < 0.3 and abs(speed - 2.43) < 0.6 and drift < 1e-3


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "argon.svg")
