"""JAX-compatible tracing, differentiation and compilation on IREE."""
