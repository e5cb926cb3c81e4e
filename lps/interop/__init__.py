"""Runs and labels for other programs and machines, messages of runs, and what comes from there, checked. Imports
analysis, scheduler, store and below."""
