"""The page Add pictures: from a folder to a run. Imports what pages share, and no other page."""
