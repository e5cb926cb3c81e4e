"""The page Compare: compare groups of runs. Imports the shared parts and no other page."""
