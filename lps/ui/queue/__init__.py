"""The page Queue: running and waiting runs. Imports the shared parts and no other page."""
