"""Exchange runs and labels with other programs and machines, check what comes in, and send messages about runs. Imports
analysis, scheduler, store and below.
"""
