"""What should a person look at next? Picture by picture, the most helpful ones first, answered by keys."""

from lps.ui.review import page
from lps.ui.server import routing

TITLE = "Review"
ICON = ":material/checklist:"
GROUP = "My pictures"
PLACE = 52
MENU = "Clusters"
TAB = "Review"

routing.show_page(page.main)
