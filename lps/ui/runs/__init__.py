"""The page Runs: the table of all runs. Imports the shared parts and no other page."""
