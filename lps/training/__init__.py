"""Training: the loop, its start, evaluation and checkpoints. Imports methods, store and below."""
