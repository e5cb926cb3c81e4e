"""What does a run say of new pictures? Their classes, what is none of these, and what they are like."""

from lps.ui.predict import page
from lps.ui.server import routing

TITLE = "Predict"
ICON = ":material/image_search:"
GROUP = "My pictures"
PLACE = 60
CHARTS = True

routing.show_page(page.main)
