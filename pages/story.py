"""What is open-world learning, and what does LPS do? A story in eight steps, told with the recorded runs."""

from lps.ui.server import routing
from lps.ui.story import page

TITLE = "Story"
ICON = ":material/auto_stories:"
GROUP = "Learn"
PLACE = 20
MENU = "How it works"
TAB = "Story"
CHARTS = True

routing.show_page(page.main)
