"""Two small libraries under JAX's names, made to be read: optimizers, and layers of neural networks."""
