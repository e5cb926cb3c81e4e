"""The data sets of the Semantic Shift Benchmark, from tiny copies of their folders: whole, partial and wrong ones."""

import os
import shutil
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from lps.__main__ import main
from lps.data import sources
from lps.data.split import open_world_split
from lps.datasets import semantic_shift
from lps.datasets.semantic_shift import class_split, plain_name
from lps.errors import UserError
from lps.settings import catalog, recipes
from lps.settings.config import configure
from lps.ui.forms import form
from tests.datasets.benchmark_layouts import SPECIES, WRITERS, annotations, colour, draw, in_own_order
from tests.shares import in_turn
from tests.visiting import visit, words_of

SIZES = {  # classes by group
    "cub": {"known": 100, "Hard": 34, "Medium": 34, "Easy": 32},
    "stanford_cars": {"known": 98, "Hard": 7, "Medium": 15, "Easy": 76},
    "fgvc_aircraft": {"known": 50, "Hard": 13, "Medium": 17, "Easy": 20},
    "herbarium19": {"known": 341, "unknown": 342},
}
NAMES = list(SIZES)
SIDE = 8  # pixels; a class has one colour, which no size changes


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    sources._load.cache_clear()


@pytest.fixture(scope="module")
def wholes(tmp_path_factory) -> dict[str, Path]:
    """A whole copy of each data set."""
    root = tmp_path_factory.mktemp("whole")
    return {name: write(root / name) for name, write in WRITERS.items()}


@pytest.fixture
def own(wholes, tmp_path):
    """A function that gives a copy of a data set which a test may spoil."""
    return lambda name: Path(shutil.copytree(wholes[name], tmp_path / "own", copy_function=os.link))


# the class splits


@pytest.mark.parametrize("name", NAMES)
def test_the_split_has_every_class_once_in_the_order_of_the_benchmark(name):
    split = class_split(name)
    groups = [item.group for item in split]
    assert {group: groups.count(group) for group in dict.fromkeys(groups)} == SIZES[name]
    assert list(SIZES[name]) == list(dict.fromkeys(groups))  # the known ones first, then by difficulty
    assert sorted(item.index for item in split) == list(range(catalog.dataset_info(name).classes))
    if name != "herbarium19":
        assert len({plain_name(item.name) for item in split}) == len(split)
    source = Path(semantic_shift.__file__).with_name(f"{name}.csv")
    assert "# Source: " in source.read_text()


def test_classes_that_differ_by_a_year_lie_on_both_sides_of_the_split():
    """Facts that a shifted index would break: Hard cars are known ones of another year."""
    group = {item.name: item.group for item in class_split("stanford_cars")}
    for known, hard in (
        ("Audi S4 Sedan 2012", "Audi S4 Sedan 2007"),
        ("Dodge Caliber Wagon 2012", "Dodge Caliber Wagon 2007"),
        ("Volkswagen Golf Hatchback 2012", "Volkswagen Golf Hatchback 1991"),
    ):
        assert (group[known], group[hard]) == ("known", "Hard")
    group = {item.name: item.group for item in class_split("fgvc_aircraft")}
    assert (group["737-200"], group["737-900"], group["Tu-134"]) == ("known", "Hard", "Easy")
    group = {item.name: item.group for item in class_split("cub")}
    assert (group["American_Crow"], group["Fish_Crow"]) == ("known", "Hard")
    assert in_own_order("fgvc_aircraft") == sorted(in_own_order("fgvc_aircraft"))


# whole copies


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_picture_has_the_label_of_its_class(name, wholes):
    images = sources.load(name, str(wholes[name]), SIDE)
    split = class_split(name)
    expected = np.array([colour(split[label].index) for label in images.labels], np.uint8)
    assert (images.pixels == expected[:, None, None]).all()
    assert images.num_classes == len(split) == catalog.dataset_info(name).classes
    assert images.num_test == {"cub": 200, "fgvc_aircraft": 100, "stanford_cars": 196, "herbarium19": 3}[name]
    assert images.skipped == () and (images.sizes == (8, 12)).all()
    assert all((wholes[name] / file).is_file() for file in images.file_names)
    if name == "herbarium19":
        assert images.class_names[:4] == tuple(SPECIES[item.index] for item in split[:4])
    else:
        assert [plain_name(text) for text in images.class_names] == [plain_name(item.name) for item in split]


@pytest.mark.slow
def test_training_images_keep_the_order_of_the_lists(wholes):
    """The labeled half is drawn by position, so another order would be another split."""
    files = sources.load("cub", str(wholes["cub"]), SIDE).file_names
    listed = [line.split()[1] for line in (wholes["cub"] / "images.txt").read_text().splitlines()]
    assert list(files) == [f"images/{name}" for name in listed]
    files = sources.load("herbarium19", str(wholes["herbarium19"]), SIDE).file_names
    assert list(files[:683]) == [f"small-train/{name}/1.jpg" for name in SPECIES]


@pytest.mark.parametrize("name", in_turn(NAMES, 4))
def test_the_folder_above_will_do_and_both_give_the_same(name, wholes):
    inner, outer = (sources.load(name, str(path), SIDE) for path in (wholes[name], wholes[name].parent))
    assert np.array_equal(inner.pixels, outer.pixels) and np.array_equal(inner.labels, outer.labels)


@pytest.mark.parametrize("name", NAMES)
def test_the_usual_split_is_that_of_the_benchmark(name, wholes):
    images = sources.load(name, str(wholes[name]), SIDE)
    config = configure({"dataset": name, "dataset.path": str(wholes[name])})
    assert config.split_labeled_ratio == 0.5
    known = SIZES[name]["known"]
    labels = np.tile(np.arange(images.num_classes), 40)
    split = open_world_split(labels, images.class_names, config)
    assert split.classes.seen == known and split.classes.total == images.num_classes
    assert (split.targets(labels)[split.labeled] < known).all()
    assert split.class_names[:known] == images.class_names[:known]


def test_labels_go_by_name_and_not_by_number(own):
    """A copy whose classes are numbered otherwise has the same labels."""
    root = own("cub")
    whole = sources.load("cub", str(root), SIDE)
    turned = {str(number): str(number % 200 + 1) for number in range(1, 201)}
    for name, column in (("classes.txt", 0), ("image_class_labels.txt", 1)):
        rows = [line.split() for line in (root / name).read_text().splitlines()]
        for row in rows:
            row[column] = turned[row[column]]
        rewrite(root / name, "\n".join(" ".join(row) for row in rows))
    again = sources.load("cub", str(root), SIDE)
    assert np.array_equal(again.labels, whole.labels) and again.class_names == whole.class_names


@pytest.mark.slow
def test_annotations_beside_the_devkit_and_a_copy_without_test_images(own):
    root = own("stanford_cars")
    name = "cars_test_annos_withlabels.mat"
    shutil.move(root / "devkit" / name, root / name)
    assert sources.load("stanford_cars", str(root), SIDE).num_test == 196
    (root / name).unlink()
    shutil.rmtree(root / "cars_test")
    images = sources.load("stanford_cars", str(root), SIDE)
    assert images.num_test == 0 and len(images.labels) == 392


def test_a_list_that_changed_is_read_again(own):
    root = own("fgvc_aircraft")
    assert sources.load("fgvc_aircraft", str(root), SIDE).num_test == 100
    path = root / "data/images_variant_test.txt"
    rewrite(path, "".join(path.read_text().splitlines(True)[:99]))
    for given in (root, root.parent):
        os.utime(path, ns=(given == root, 1))
    assert sources.load("fgvc_aircraft", str(root), SIDE).num_test == 99


# wrong and partial copies


def rewrite(path: Path, content: str | bytes) -> None:
    """Replace a file, whose old content other copies share."""
    path.unlink(missing_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def edited(name: str, old: str, new: str):
    return lambda root: rewrite(root / name, (root / name).read_text().replace(old, new, 1))


def without(name: str):
    return lambda root: shutil.rmtree(root / name) if (root / name).is_dir() else (root / name).unlink()


def filled(name: str, content: str | bytes):
    return lambda root: rewrite(root / name, content)


def matlab(name: str, **values):
    def write(root: Path) -> None:
        (root / name).unlink()
        savemat(root / name, values)

    return write


TRAINING = "devkit/cars_train_annos.mat"
NAMED = np.array([in_own_order("stanford_cars")], object)
WRONG = [
    *(
        ("cub", without(name), f"has no {name}; .*get CUB-200-2011 from www.vision.caltech.edu")
        for name in ("classes.txt", "images.txt", "image_class_labels.txt", "train_test_split.txt")
    ),
    ("cub", without("images"), "600 of 600 pictures are missing .*, such as .*; unpack CUB-200-2011 again"),
    ("cub", without("images/012.Yellow_headed_Blackbird"), "3 of 600 pictures are missing"),
    ("cub", edited("image_class_labels.txt", "1 1\n", "1 201\n"), "holds the class '201'; expected 1 to 200"),
    ("cub", edited("image_class_labels.txt", "1 1\n", "1 0\n"), "holds the class '0'; expected 1 to 200"),
    ("cub", edited("image_class_labels.txt", "1 1\n", "1 one\n"), "holds the class 'one'; expected 1 to 200"),
    ("cub", edited("image_class_labels.txt", "1 1\n", ""), "has 599 pictures and images.txt 600; both must list"),
    ("cub", edited("image_class_labels.txt", "1 1\n", "2 1\n"), "names 599 ids in 600 lines; expected each id once"),
    ("cub", edited("train_test_split.txt", "1 1\n", "1 2\n"), "train_test_split.txt holds '2'; expected 1"),
    ("cub", edited("images.txt", "1 001", "1001"), "images.txt has '1001.* in line 1; expected two words"),
    ("cub", edited("images.txt", "001.Black_footed_Albatross/0", "../../x"), "names .* is outside the data set"),
    (
        "cub",
        edited("images.txt", "\n8 050.Eared_Grebe/7.jpg", "\n8 001.Black_footed_Albatross/0.jpg"),
        "images/001.Black_footed_Albatross/0.jpg' is listed 2 times; expected once",
    ),
    ("cub", filled("images.txt", ""), "images.txt in .* is empty"),
    ("cub", filled("images.txt", b"\xff\xfe\0\0" * 100), "dataset.path: "),
    ("cub", edited("classes.txt", "1 001.Black_footed_Albatross\n", ""), "classes.txt names 199 classes; expected 200"),
    ("cub", edited("classes.txt", "Black_footed", "Blue_footed"), "Blue_footed_Albatross', which is not a class"),
    ("cub", edited("classes.txt", "Black_footed", "Laysan"), "names 'Laysan_Albatross', which is listed twice"),
    *(
        ("fgvc_aircraft", without(f"data/images_variant_{part}.txt"), f"has no data/images_variant_{part}.txt; .*get")
        for part in ("trainval", "test")
    ),
    ("fgvc_aircraft", without("data/images"), "300 of 300 pictures are missing"),
    ("fgvc_aircraft", without("data/images/0000007.jpg"), "1 of 300 pictures are missing .*0000007.jpg"),
    ("fgvc_aircraft", edited("data/images_variant_test.txt", " 707-320", " 808"), "808', which is not one of its"),
    ("fgvc_aircraft", edited("data/images_variant_test.txt", "0000200", "0000003"), "0000003.jpg' is listed 2 times"),
    ("fgvc_aircraft", edited("data/images_variant_trainval.txt", "0000000", "../0"), "is outside the data set"),
    *(
        ("stanford_cars", without(f"devkit/{name}.mat"), f"has no devkit/{name}.mat; .*get Stanford Cars from")
        for name in ("cars_meta", "cars_train_annos", "cars_test_annos_withlabels")
    ),
    ("stanford_cars", without("cars_train"), "392 of 588 pictures are missing"),
    ("stanford_cars", filled(TRAINING, "hello"), "is damaged or not a MATLAB file"),
    ("stanford_cars", matlab(TRAINING, other=1), "has no annotations"),
    ("stanford_cars", matlab(TRAINING, annotations=np.arange(9)), "has no fname or class"),
    (
        "stanford_cars",
        matlab(TRAINING, annotations=annotations([0], [0], with_labels=False)),
        "has no class: it is the test list without labels",
    ),
    ("stanford_cars", matlab(TRAINING, annotations=annotations([0], [196])), "the class '197'; expected 1 to 196"),
    ("stanford_cars", matlab(TRAINING, annotations=annotations([0], [0])), "has no readable training picture"),
    ("stanford_cars", matlab("devkit/cars_meta.mat", class_names=NAMED[:, :195]), "names 195 classes; expected 196"),
    ("stanford_cars", matlab("devkit/cars_meta.mat", class_names=np.arange(196)), "names '0', which is not a class"),
    ("herbarium19", without("small-train"), "has no small-train; .*get Herbarium 19 from www.kaggle.com"),
    ("herbarium19", without("small-train/682"), "small-train has 682 folders; expected 683.*get Herbarium 19 from"),
    (
        "herbarium19",
        lambda root: (root / "small-train/17").rename(root / "small-train/oak"),
        "a folder 'oak'; expected only folders that are called 0 to 682",
    ),
    (
        "herbarium19",
        lambda root: (root / "small-train/__MACOSX").mkdir(),
        "a folder '__MACOSX'; expected only folders",
    ),
    ("herbarium19", without("small-train/17/1.jpg"), "small-train/'17' has no picture"),
    ("herbarium19", lambda root: draw(root / "small-validation/999/1.jpg", 0), "small-validation has a folder '999'"),
]  # fmt: skip


@pytest.mark.parametrize("name, spoil, sentence", WRONG, ids=[f"{name}: {words[:50]}" for name, _, words in WRONG])
def test_whatever_is_wrong_or_missing_is_one_sentence(name, spoil, sentence, own):
    root = own(name)
    spoil(root)
    with pytest.raises(UserError, match=sentence) as caught:
        sources.load(name, str(root), SIDE)
    assert caught.value.name == "dataset.path" and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_folder_people_are_told_where_to_get_it(name, tmp_path):
    for path in (None, str(tmp_path / "nowhere"), str(tmp_path)):
        with pytest.raises(UserError, match=f"expected .*; get {catalog.dataset_info(name).title} from ") as caught:
            sources.load(name, path)
        assert caught.value.name == "dataset.path" and "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, first, second",
    [
        ("cub", "images/001.Black_footed_Albatross/0.jpg", "images/001.Black_footed_Albatross/200.jpg"),
        ("fgvc_aircraft", "data/images/0000000.jpg", "data/images/0000100.jpg"),
        ("stanford_cars", "cars_train/00001.jpg", "cars_train/00197.jpg"),
    ],
)
def test_a_picture_that_cannot_be_read_is_listed_and_a_class_without_any_is_refused(name, first, second, own):
    root = own(name)
    count = len(sources.load(name, str(root), SIDE).labels)
    rewrite(root / first, b"no picture")
    sources._load.cache_clear()  # as for the next process: the times of folders deep below are not looked at
    images = sources.load(name, str(root), SIDE)
    assert [file for file, _ in images.skipped] == [first] and len(images.labels) == count - 1
    assert first not in images.file_names
    rewrite(root / second, b"no picture")
    sources._load.cache_clear()
    with pytest.raises(UserError, match="has no readable training picture"):
        sources.load(name, str(root), SIDE)


# bounds


def test_lists_that_never_end_are_not_read(own):
    root = own("cub")
    (root / "images.txt").unlink()
    with open(root / "images.txt", "wb") as file:
        file.truncate(8 << 30)
    tracemalloc.start()
    with pytest.raises(UserError, match="is longer than 16 MiB"):
        sources.load("cub", str(root), SIDE)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    (root / "images.txt").unlink()
    os.mkfifo(root / "images.txt")  # whoever opens it would wait
    with pytest.raises(UserError, match="has no images.txt"):
        sources.load("cub", str(root), SIDE)


@pytest.mark.slow
def test_annotations_that_unpack_to_too_much_are_not_unpacked(own):
    root = own("stanford_cars")
    packing = zlib.compressobj()
    packed = b"".join(packing.compress(bytes(1 << 20)) for _ in range(512)) + packing.flush()
    head = (root / TRAINING).read_bytes()[:128]
    rewrite(root / TRAINING, head + np.array([15, len(packed)], np.uint32).tobytes() + packed)
    tracemalloc.start()
    with pytest.raises(UserError, match="unpacks to more than 64 MiB"):
        sources.load("stanford_cars", str(root), SIDE)
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()


def test_cut_annotations_are_one_sentence(own):
    root = own("stanford_cars")
    whole = (root / TRAINING).read_bytes()
    for end in range(0, len(whole), len(whole) // 25):
        rewrite(root / TRAINING, whole[:end])
        with pytest.raises(UserError) as caught:
            sources.load("stanford_cars", str(root), SIDE)
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_as_many_pictures_as_the_real_one_are_listed_in_seconds(own, monkeypatch):
    """Lists of 12,000 pictures; decoding is bounded by the tests of data sets in general."""
    root = own("cub")
    images = root / "images.txt"
    names = [line.split()[1] for line in images.read_text().splitlines()]
    for i in range(600, 12_000):
        names.append(f"{names[i % 600]}.{i}.jpg")
        (root / "images" / names[i]).hardlink_to(root / "images" / names[i % 600])
    for name, value in (
        ("images.txt", names.__getitem__),
        ("image_class_labels.txt", lambda i: i % 600 * 7 % 200 + 1),
        ("train_test_split.txt", lambda i: int(i % 600 < 400)),
    ):
        rewrite(root / name, "\n".join(f"{i + 1} {value(i)}" for i in range(12_000)))
    listed = []
    monkeypatch.setattr(semantic_shift.Download, "load_listing", lambda self, listing, *_: listed.append(listing))
    started = time.process_time()
    sources._module("cub").load(str(root), SIDE)
    assert time.process_time() - started < 10
    assert len(listed[0].files) == 12_000 and listed[0].num_test == 4_000


# where people meet them


def test_launch_and_the_command_line_list_them_and_say_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    assert main(["datasets"]) == 0
    listed = capsys.readouterr().out
    for name in NAMES:
        info = catalog.dataset_info(name)
        assert f"{name} " in listed and info.title in catalog.dataset_titles().values()
        assert main(["train", "--dataset", name, "--runs", str(tmp_path / "runs")]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"get {info.title} from" in said
    app = visit("launch", dataset="cub")
    assert "get CUB-200-2011 from www.vision.caltech.edu" in words_of(app) and not app.exception
    assert set(catalog.dataset_titles().values()) == set(app.selectbox(key="form:dataset").options)


def test_the_guide_names_every_file_and_every_place():
    guide = Path(__file__).parents[2].joinpath("docs/semantic-shift-benchmark.md").read_text(encoding="utf-8")
    for name in NAMES:
        download = sources._module(name)._DOWNLOAD
        known, total = SIZES[name]["known"], sum(SIZES[name].values())
        assert f"| `{name}` |" in guide and f"| {total}, {known} |" in guide
        assert f"{download.inner}/ " in guide and download.home.split(",")[0] in guide
        assert all(file in guide for file in download.lists)


def test_the_usual_settings_are_those_of_the_authors_scripts():
    for name in NAMES:
        for method, weight in (("simgcd", 2.0), ("legogcd", 2.0 if name == "cub" else 1.0)):
            config = configure({"dataset": name, "method": method})
            assert config.hyperparameters["entropy_weight"] == weight
            assert (config.epochs, config.batch_size, config.lr, config.weight_decay) == (200, 128, 0.1, 5e-5)
            assert (config.network_name, config.network_start) == ("timm:vit_base_patch16_224.dino", "published")
            assert (config.network_freeze_until, config.views) == ("last_but_one", "gcd")
            assert (config.split_labeled_ratio, config.split_rule, config.split_seed) == (0.5, "exact", 0)
            assert not config.rests_on_labels  # DINO's weights know pictures and no classes
            again = configure({"dataset": name, "method": method, "entropy_weight": 3.0})
            assert again.hyperparameters["entropy_weight"] == 3.0
            assert form.default_settings(name, method, {})["entropy_weight"] == weight
            assert config.defaults()["entropy_weight"] == weight
        assert configure({"dataset": name}).hyperparameters == configure({}).hyperparameters
    assert configure({"method": "simgcd"}).hyperparameters["entropy_weight"] == 1.0


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"simgcd": {"entropy_weight": -1.0}}, "entropy_weight"),
        ({"simgcd": {"beauty": 1.0}}, "'beauty' is not a setting"),
        ({"nobody": {}}, "'nobody' is not one of"),
        ([], "RECIPE_BY_METHOD: is \\[\\], not of type dict"),
    ],
)
def test_a_recipe_by_method_that_does_not_fit_is_one_sentence(values, sentence, monkeypatch):
    from lps.datasets import cub

    monkeypatch.setattr(cub, "RECIPE_BY_METHOD", values)
    catalog._read_at.cache_clear()
    with pytest.raises(UserError, match=sentence):
        catalog.dataset_info("cub")
    monkeypatch.undo()
    catalog._read_at.cache_clear()
    assert catalog.dataset_info("cub").recipe_by_method


def test_a_light_training_sees_small_pictures():
    """On a CPU views of 224 pixels would make a light training a heavy one."""
    for name in NAMES:
        config = configure({"dataset": name} | recipes.training_efforts(name)["light"])
        assert (config.views, config.dataset_image_size, config.network_name) == ("cifar", 32, "digits_resnet")
        assert config.network_start == "simclr" and config.split_rule == "exact"
