"""Clusters of observations."""

from veery.scipy.cluster import vq as vq
