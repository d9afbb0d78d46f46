"""Names that may change."""
