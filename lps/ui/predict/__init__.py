"""The page Predict: what does a run say of new pictures? Imports what pages share, no other page."""
