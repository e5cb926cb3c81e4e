"""What did the network put together? Every cluster with its images; name them, and export the labels."""

from lps.ui import clusters, openings, routing


def main() -> None:
    words = "No run has predictions yet; the first epoch of training makes them."
    runs = openings.begin_with("Clusters", clusters.has_clusters, words, ":material/category:")
    if runs:
        clusters.show(runs)


routing.through_app()
main()
