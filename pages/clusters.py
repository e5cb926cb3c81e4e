"""What did the network put together? Every cluster with its images; name them, and export the labels."""

from lps.ui.clusters import page
from lps.ui.server import routing

TITLE = "Clusters"
ICON = ":material/category:"
GROUP = "My pictures"
PLACE = 50
MENU = "Clusters"
TAB = "Clusters"
CHARTS = True

routing.show_page(page.main)
