"""The page Review: what should a person decide next? Imports what pages share, no other page."""
