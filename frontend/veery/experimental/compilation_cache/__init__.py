"""The cache of compiled programs on disk."""

from veery.experimental.compilation_cache import compilation_cache as compilation_cache
