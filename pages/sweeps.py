"""Many runs as one decision: a table of the paper or an own layout, what it costs, and how it fills."""

from lps.ui.server import routing
from lps.ui.sweeps import page

TITLE = "Sweep"
ICON = ":material/dynamic_feed:"
GROUP = "Experiments"
PLACE = 72
MENU = "Launch"
TAB = "Sweep"

routing.show_page(page.main)
