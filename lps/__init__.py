"""LPS Studio: watch a model learn the classes it has labels for, and discover the ones it has not."""

__version__ = "0.1.0"
