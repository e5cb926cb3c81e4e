"""The page Charts: what do I want to see of my runs? Imports what pages share, no other page."""
