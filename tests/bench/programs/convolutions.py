"""Convolutions and pooling."""

from __future__ import annotations

from typing import Any

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp = jax.numpy
    some = Some(jnp, 5)
    images, kernel = some(8, 3, 32, 32), some(16, 3, 3, 3)
    maps = some(4, 16, 32, 32)

    def convolved(x: Any, w: Any, **options: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, options.pop("strides", (1, 1)), "SAME", **options)

    def pooled(x: Any) -> Any:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def line(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"))

    def volume(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1, 1, 1), "SAME")

    return {
        "convolution": (convolved, (images, kernel)),
        "convolution, strides": (lambda x, w: convolved(x, w, strides=(2, 2)), (images, kernel)),
        "convolution, 16 to 32": (convolved, (maps, some(32, 16, 3, 3))),
        "convolution, 1 x 1": (convolved, (maps, some(32, 16, 1, 1))),
        "convolution, dilated": (lambda x, w: convolved(x, w, rhs_dilation=(2, 2)), (maps, some(16, 16, 3, 3))),
        "convolution, depthwise": (lambda x, w: convolved(x, w, feature_group_count=16), (maps, some(16, 1, 3, 3))),
        "convolution of lines": (line, (some(8, 16, 1000), some(32, 16, 5))),
        "convolution of volumes": (volume, (some(1, 4, 16, 16, 16), some(8, 4, 3, 3, 3))),
        "convolution, transposed": (
            lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
            (maps, some(8, 16, 3, 3)),
        ),
        "gradient of a convolution": (
            lambda x, w: jax.grad(lambda w: (convolved(x, w) ** 2).sum())(w), (maps, some(16, 16, 3, 3))
        ),
        "pooling": (pooled, (maps,)),
        "convolve": (lambda x, w: jnp.convolve(x, w), (some(10_000), some(31))),
    }  # fmt: skip
