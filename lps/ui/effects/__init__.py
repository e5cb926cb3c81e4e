"""The page Effects: measure the effect of settings. Imports the shared parts and no other page."""
