"""What should be trained? Data, split, method and settings; one click makes one run per seed."""

from lps.ui.launch import page
from lps.ui.server import routing

TITLE = "Launch"
ICON = ":material/rocket_launch:"
GROUP = "Experiments"
PLACE = 70
MENU = "Launch"
TAB = "Launch"

routing.show_page(page.main)
