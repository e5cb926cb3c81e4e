"""How does LPS work? The method in six questions, with live numbers, made up or of a run."""

from lps.ui.explain import page
from lps.ui.server import routing

TITLE = "Explain"
ICON = ":material/school:"
GROUP = "Learn"
PLACE = 25
MENU = "How it works"
TAB = "Explain"
CHARTS = True

routing.show_page(page.main)
