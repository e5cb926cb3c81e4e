"""Which settings do well? A search over ranges, trial by trial, by labels that were withheld."""

from lps.ui.search import page
from lps.ui.server import routing

TITLE = "Search"
ICON = ":material/search:"
GROUP = "Experiments"
PLACE = 74
MENU = "Launch"
TAB = "Search"

routing.show_page(page.main)
