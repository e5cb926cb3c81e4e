"""Which is better, and by how much? Runs side by side: table, curves, settings, and all of it to take away."""

from lps.ui.compare import page
from lps.ui.server import routing

TITLE = "Compare"
ICON = ":material/balance:"
GROUP = "Experiments"
PLACE = 90
MENU = "Analyze"
TAB = "Compare"
CHARTS = True

routing.show_page(page.main)
