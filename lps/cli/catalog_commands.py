"""List methods and data sets: `methods` and `datasets`."""

from dataclasses import asdict

from lps.cli._parser import Commands, print_json
from lps.settings import catalog


def add(commands: Commands) -> None:
    methods = commands.add("methods", _list_methods, "list the methods", as_json=True)
    methods.add_argument("method", nargs="?", help="show this method with its objective, citation and deviations")
    sets = commands.add("datasets", _list_datasets, "list the data sets", as_json=True)
    sets.add_argument("--fetch", metavar="NAME", help="download this data set, if it has a source")


def _list_methods(options) -> None:
    names = [options.method] if options.method else catalog.method_names()
    infos = [catalog.method_info(name) for name in names]
    broken_methods = {} if options.method else catalog.broken_methods()
    if options.json:
        print_json([{"name": i.name, "title": i.title, "summary": i.summary, "sections": i.sections,
                      "parameters": [asdict(p) for p in i.parameters.values()]} for i in infos]
                   + _broken_entries(broken_methods))  # fmt: skip
        return
    for info in infos:
        print(f"{info.name:12} {info.summary}")
        for parameter in info.parameters.values():
            meanings = "".join(f"; {choice}: {meaning}" for choice, meaning in parameter.told.words.items())
            print(f"    {parameter.name}={parameter.default}  {parameter.help} ({parameter.expectation()}{meanings})")
        for title, text in info.sections.items() if options.method else ():
            print(f"\n{title}\n" + "\n".join(f"    {line}".rstrip() for line in text.splitlines()))
    for name, reason in broken_methods.items():
        print(f"{name:12} broken: {reason}")


def _list_datasets(options) -> None:
    if options.fetch:
        from lps.data import sources

        sources.fetch(options.fetch)
        return
    infos = [catalog.dataset_info(name) for name in catalog.dataset_names()]
    if options.json:
        print_json([asdict(info) for info in infos] + _broken_entries(catalog.broken_datasets()))
        return
    for info in infos:
        print(f"{info.name:14} {info.summary}")
    for name, reason in catalog.broken_datasets().items():
        print(f"{name:14} broken: {reason}")


def _broken_entries(reasons: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "broken": reason} for name, reason in reasons.items()]
