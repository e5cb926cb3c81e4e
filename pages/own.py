"""Add pictures: bring them along or find them on this machine, see what is there, and start."""

from lps.ui.own import page
from lps.ui.server import routing

TITLE = "Add pictures"
ICON = ":material/add_photo_alternate:"
GROUP = "My pictures"
PLACE = 40

routing.show_page(page.main)
