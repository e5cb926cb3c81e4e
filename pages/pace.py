"""Race: runs of one split as a race, with their whole course."""

from lps.ui.race import page
from lps.ui.server import routing

TITLE = "Race"
ICON = ":material/view_column_2:"
GROUP = "Learn"
PLACE = 30
CHARTS = True

routing.show_page(page.main)
