"""The page Predict: predict new pictures with a run. Imports the shared parts and no other page."""
