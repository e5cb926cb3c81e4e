"""What there is: `methods` and `datasets`."""

from dataclasses import asdict

from lps import catalog
from lps.commands import Commands, print_json


def add(commands: Commands) -> None:
    methods = commands.add("methods", list_methods, "what can be trained", as_json=True)
    methods.add_argument("method", nargs="?", help="one of them: its objective, citation and deviations too")
    sets = commands.add("datasets", list_datasets, "what it can be trained on", as_json=True)
    sets.add_argument("--fetch", metavar="NAME", help="download this one, where that is possible")


def list_methods(options) -> None:
    names = [options.method] if options.method else catalog.method_names()
    infos = [catalog.method_info(name) for name in names]
    if options.json:
        print_json([{"name": i.name, "title": i.title, "summary": i.summary, "sections": i.sections,
                      "parameters": [asdict(p) for p in i.parameters.values()]} for i in infos])  # fmt: skip
        return
    for info in infos:
        print(f"{info.name:12} {info.summary}")
        for parameter in info.parameters.values():
            print(f"    {parameter.name}={parameter.default}  {parameter.help} ({parameter.expectation()})")
        for title, text in info.sections.items() if options.method else ():
            print(f"\n{title}\n" + "\n".join(f"    {line}".rstrip() for line in text.splitlines()))


def list_datasets(options) -> None:
    if options.fetch:
        from lps import datasets

        datasets.fetch(options.fetch)
        return
    infos = [catalog.dataset_info(name) for name in catalog.dataset_names()]
    if options.json:
        print_json([asdict(info) for info in infos])
        return
    for info in infos:
        print(f"{info.name:14} {info.summary}")
