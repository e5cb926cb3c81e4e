"""The page Review: decide about pictures one by one. Imports the shared parts and no other page."""
