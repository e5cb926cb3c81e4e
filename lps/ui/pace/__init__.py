"""The page Race: who learns how fast? Imports what pages share, no other page."""
