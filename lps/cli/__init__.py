"""Define the command line: each file has commands that belong together and registers itself unless it begins with "_".
Imports everything but ui.
"""
