"""Define the settings of a run with type, range and meaning. Imports errors and files; no arrays, no torch."""
