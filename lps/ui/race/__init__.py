"""The page Race: compare how fast runs learn. Imports the shared parts and no other page."""
