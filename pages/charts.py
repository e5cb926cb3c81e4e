"""What do I want to see of my runs? Charts that people put together, kept as boards."""

from lps.ui.board import page
from lps.ui.server import routing

TITLE = "Charts"
ICON = ":material/stacked_line_chart:"
GROUP = "Experiments"
PLACE = 92
MENU = "Analyze"
TAB = "Charts"
CHARTS = True

routing.show_page(page.main)
