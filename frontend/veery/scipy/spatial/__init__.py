"""Space: rotations."""

from veery.scipy.spatial import transform as transform
