"""What is this, and what is going on? The explanation, the demo, the latest runs."""

from lps.ui.home import page
from lps.ui.server import routing

TITLE = "Home"
ICON = ":material/home:"
GROUP = ""
PLACE = 10

routing.show_page(page.main)
