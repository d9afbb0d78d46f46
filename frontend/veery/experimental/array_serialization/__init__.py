"""What checkpoints of arrays have in common. Libraries write them: orbax-checkpoint does."""
