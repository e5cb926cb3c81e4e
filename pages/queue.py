"""Which runs are running, and which wait? The queue of all runs: first, priority, pause, cancel, retry."""

from lps.ui.queue import page
from lps.ui.server import routing

TITLE = "Queue"
ICON = ":material/pending_actions:"
GROUP = "Experiments"
PLACE = 84
MENU = "Runs"
TAB = "Queue"

routing.show_page(page.main)
