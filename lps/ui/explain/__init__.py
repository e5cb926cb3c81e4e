"""The page Explain: how LPS works. Imports the shared parts and no other page."""
