"""Readers shared by data sets: pictures and arrays from files, read in parts, and the cache of decoded pictures."""
