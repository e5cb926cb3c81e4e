"""Forms for settings, and the list of named things, shared by Launch, Sweeps and Search. Imports no page."""
