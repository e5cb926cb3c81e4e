"""Look at the features of a run as points on a plane, and at the image behind each point."""

from lps.ui import maps, openings, routing


def main() -> None:
    words = "No run has recorded features yet; the first epoch of training does."
    runs = openings.begin_with("Projection", maps.has_points, words, ":material/scatter_plot:")
    if runs:
        maps.show(runs)


routing.through_app()
main()
