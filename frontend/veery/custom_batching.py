"""Batching rules of the user's own."""

from veery._api.custom_batching import custom_vmap as custom_vmap, sequential_vmap as sequential_vmap
