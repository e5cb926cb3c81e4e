"""The page Add pictures: from a folder of pictures to a run. Imports the shared parts and no other page."""
