"""The name of `lps.scheduler` up to version 0.3.0: jobs that wait in the queue of a cluster still call it.

The module that such a job runs is found in its new place.
"""

from lps.scheduler import __path__  # noqa: F401
