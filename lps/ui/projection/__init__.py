"""The page Projection: a map of the images. Imports the shared parts and no other page."""
