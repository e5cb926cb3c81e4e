"""`notify`: who is told when a run ends or goes wrong."""

from lps.cli._parser import Commands, say
from lps.errors import Refusal


def add(commands: Commands) -> None:
    notify = commands.add("notify", _notify, "who is told when a run ends, fails or goes wrong (LPS_NOTIFY)")
    notify.add_argument("--test", action="store_true", help="send everybody a message")


def _notify(options) -> None:
    from lps.exchange import messages

    everybody = messages.receivers()
    kinds = ", ".join(messages.kinds())
    if not kinds:
        say(f'nobody; such as {messages.SETTING}="jsons://example.org/hook desktop://" before the dashboard starts')
    elif not options.test:
        say(kinds)
    elif everybody.notify(title="LPS Studio: a test", body="Messages of runs arrive here."):
        say(f"arrived: {kinds}")
    else:
        raise Refusal(messages.SETTING, f"not all of {kinds} could be reached")
