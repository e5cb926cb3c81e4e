"""The page Charts: plot any measurement of any runs. Imports the shared parts and no other page."""
