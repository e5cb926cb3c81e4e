"""Provide parts that several methods use: losses, pseudo-labels, clustering. Imports data and network."""
