"""The public transformations, as functions of functions with pytree arguments."""
