"""Records of sweeps and searches with hostile texts, and runs that belong to them."""

import json
from pathlib import Path

from lps.files.atomic import clean_line, write_json
from lps.files.versions import with_version
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.studies import search, sweep_records
from lps.studies.presets import NAME_LIMIT
from tests.hostile_runs import TEXTS
from tests.sample_runs import make_run

NAMES = tuple(dict.fromkeys(name for text in TEXTS if (name := clean_line(text, NAME_LIMIT))))  # as tags keep them


def layout(text: str, **different) -> dict:
    """Return the record of a sweep layout that is valid: paths may be any text, and so may varied values."""
    kept = {"datasets": ["arrays"], "methods": ["lps"], "seeds": [0, 1], "mode": "grid", "samples": None}
    kept |= {
        "fixed": {"dataset.path": text, "network.start": "checkpoint"},
        "varied": {"network.checkpoint": [text, f"{text} too"]},
        "sample_seed": 0,
    }
    return {"layout": kept | different}


def layouts(text: str) -> list[dict]:
    """Return one valid record and many invalid ones: the text in every place, and instead of everything."""
    wrong = [{key: [text]} for key in ("datasets", "methods", "seeds")] + [{"mode": text}, {"samples": text}]
    wrong += [{"fixed": {text: text}}, {"varied": {text: [text]}}, {"varied": [text]}, {"fixed": text}]
    wrong += [{"sample_seed": text}, {text: text}, {"seeds": text}, {"varied": {"lr": text}}]
    preset = {"preset": "ablation", "scale": "demo", "seeds": [0], "datasets": [], "fixed": {}}
    presets = [preset | {"preset": text}, preset | {"scale": text}, preset | {"fixed": {text: text}}, preset]
    return [
        layout(text),
        *(layout(text, **one) for one in wrong),
        *({"preset": one} for one in presets),
        {"layout": text},
        {"preset": [text]},
        {text: text},
    ]


def make_sweeps(root: Path) -> list[str]:
    """Make sweeps with hostile names and records and a finished run in each; return the names."""
    for number, name in enumerate(NAMES):
        run = make_run(root, epochs=2, seed=number, name=name)
        run.write_meta(tags=[f"{sweep_records.PREFIX}{name}"], notes=TEXTS[number])
        kept = layouts(TEXTS[number])
        sweep_records.write_sweep_record(root, name, kept[0] if number % 2 == 0 else kept[number % len(kept)])
    return list(NAMES)


def put_newer_record(root: Path, name: str, version: object) -> None:
    """Write a record of an unknown, newer version."""
    path = sweep_records._path(root, name)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version}))


def make_search(root: Path, name: str = "hostile", network: str = "cifar_resnet18") -> search.Search:
    """Make a search with a hostile path of its data set, and trials whose runs and reasons are hostile."""
    import optuna

    base = configure(
        {"dataset": "arrays", "dataset.path": TEXTS[0], "network.start": "checkpoint", "network.checkpoint": TEXTS[4]}
    )
    space = search.read_space(["margin_scale=1..10", f"network.name=digits_resnet,{network}"], "lps")
    found = search.create_search(search.Request(name, base, space, trials=len(TEXTS)), root)
    study = search.open_study(found, create=True)
    shapes = {dimension.name: dimension for dimension in space}
    drawn = {"margin_scale": optuna.distributions.FloatDistribution(1, 10)}
    drawn["network.name"] = optuna.distributions.CategoricalDistribution(shapes["network.name"].choices)
    for number, text in enumerate(TEXTS):
        state = optuna.trial.TrialState.PRUNED if number % 3 == 0 else optuna.trial.TrialState.COMPLETE
        values = {"margin_scale": 1.0 + number / 2, "network.name": network if number % 2 else "digits_resnet"}
        about = {"user_attrs": {"runs": [text], "reason": text, "usual": not number}, "value": number / 20}
        study.add_trial(optuna.trial.create_trial(state=state, params=values, distributions=drawn, **about))
    return found


def spoil_search(found: search.Search, key: str, text: str) -> None:
    """Replace one field of the search's request by a text."""
    path = found.folder / "search.json"
    kept = json.loads(path.read_text())
    kept[key] = [text] if isinstance(kept[key], list) else {text: text} if isinstance(kept[key], dict) else text
    write_json(path, kept)


def make_foreign_searches(root: Path) -> list[str]:
    """Make folders among the searches with names that no search can have, and a record in each."""
    made = []
    for name in (*(text.replace("/", "_").replace("\0", "_") for text in TEXTS), "a\n", " a", ".hidden", "a" * 33):
        folder = root / search.FOLDER / name
        try:
            folder.mkdir(parents=True)
        except OSError:
            continue  # longer than the file system takes
        write_json(folder / "search.json", with_version("search.json", {"begun": 9e9}))
        made.append(name)
    return made


def make_trial_run(root: Path, found: search.Search) -> Run:
    run = create_run(root, configure({}), TEXTS[1])
    run.write_meta(tags=[found.tag])
    return run
