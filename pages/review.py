"""What should a person look at next? Picture by picture, the most helpful ones first, answered by keys."""

from lps.ui.review import page
from lps.ui.server import routing

TITLE = "Review"
ICON = ":material/checklist:"
GROUP = "Watch"
PLACE = 102

routing.show(page.main)
