"""Data for training: splits, views, pixels on the device, and the batches of a step. Imports data sets and settings."""
