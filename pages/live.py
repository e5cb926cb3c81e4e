"""Watch runs: how they stand, what they have learned, and any epoch again."""

from lps.ui.live import page
from lps.ui.server import routing

TITLE = "Live"
ICON = ":material/show_chart:"
GROUP = "Experiments"
PLACE = 82
MENU = "Runs"
TAB = "Live"
CHARTS = True

routing.show_page(page.main)
