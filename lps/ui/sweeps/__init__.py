"""The page Sweep: many runs for one question. Imports what pages share, no other page."""
