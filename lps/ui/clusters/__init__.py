"""The page Clusters: look at clusters and name them. Imports the shared parts and no other page."""
