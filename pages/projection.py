"""Look at the features of a run as points on a plane, and at the image behind each point."""

from lps.ui.projection import page
from lps.ui.server import routing

TITLE = "Map"
ICON = ":material/scatter_plot:"
GROUP = "My pictures"
PLACE = 54
MENU = "Clusters"
TAB = "Map"

routing.show_page(page.main)
