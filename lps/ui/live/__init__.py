"""The page Live: watch runs. Imports the shared parts and no other page."""
