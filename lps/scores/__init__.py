"""Scores: accuracy under every protocol, margins, milestones. Imports data."""
