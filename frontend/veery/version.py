"""The version of veery, and that of JAX whose interface it has."""

VEERY_VERSION = "0.1.0"
JAX_VERSION = "0.10.2"


def numbers(version: str) -> tuple[int, ...]:
    """The parts of a version, to be compared."""
    return tuple(int(part) for part in version.split("."))


# In JAX's place (`veery.as_jax`) these are JAX's.
__version__ = VEERY_VERSION
__version_info__ = numbers(VEERY_VERSION)
