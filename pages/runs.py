"""Which runs are there? All of them in one table: find, compare, name, tag, hide, stop, delete, have back, import."""

from lps.ui.runs import page
from lps.ui.server import routing

TITLE = "Runs"
ICON = ":material/view_list:"
GROUP = "Experiments"
PLACE = 80
MENU = "Runs"
TAB = "Runs"

routing.show_page(page.main)
