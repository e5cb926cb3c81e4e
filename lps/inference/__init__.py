"""Predict with trained models, continue training with cluster names, export models. Imports interop and below."""
