"""The page Launch: configure and start runs. Imports the shared parts and no other page."""
