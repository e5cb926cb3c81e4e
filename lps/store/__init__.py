"""A run on disk: its files, events, state and texts. Imports settings, machine, cluster; never the scheduler."""
