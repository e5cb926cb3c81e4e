"""Pace, twinned: runs of one split side by side under one epoch, from the first to the last."""

from lps.ui import openings, routing, twins


def main() -> None:
    runs = openings.begin("Pace")
    if runs:
        twins.show(runs)


routing.through_app()
main()
