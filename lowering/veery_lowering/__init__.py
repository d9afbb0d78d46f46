"""Lowering of jaxprs to StableHLO and their compilation by IREE."""
