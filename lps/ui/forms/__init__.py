"""Forms for settings and lists of named items, shared by Launch, Sweep and Search. Imports no page."""
