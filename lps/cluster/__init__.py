"""Define the executors, which carry out runs on other machines: one file each in `executors`. Imports settings and
below.
"""
