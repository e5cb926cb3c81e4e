"""The page Home: the way in. Imports the shared parts and no other page."""
