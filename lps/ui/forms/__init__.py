"""Forms for settings and lists of named items, shared by Launch, Sweeps and Search. Imports no page."""
