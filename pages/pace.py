"""Pace: runs of one split as a race, with their whole course."""

from lps.ui.pace import page
from lps.ui.server import routing

TITLE = "Pace"
ICON = ":material/view_column_2:"
GROUP = "Watch"
PLACE = 60
CHARTS = True

routing.show(page.main)
