"""Names that may change."""

from veery.experimental import checkify as checkify
