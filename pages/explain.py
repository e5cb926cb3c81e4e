"""How does LPS work? The method in six questions, with live numbers, made up or of a run."""

from lps.ui import explain, openings, routing, select


def main() -> None:
    openings.show_title("Explain")
    runs = select.open_runs()
    openings.say_missing(runs)
    explain.show(runs)


routing.through_app()
main()
