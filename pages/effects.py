"""What does each setting do? One value after the other, two at once, all together; and LPS without its parts."""

from lps.ui.effects import page
from lps.ui.server import routing

TITLE = "Effects"
ICON = ":material/tune:"
GROUP = "Experiments"
PLACE = 94
MENU = "Analyze"
TAB = "Effects"
CHARTS = True

routing.show_page(page.main)
