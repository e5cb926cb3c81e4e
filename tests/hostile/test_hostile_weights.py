"""Files of weights that cost more than they hold: each is refused in one sentence, within seconds and little memory."""

import io
import zipfile
from pathlib import Path

import pytest
import torch

from lps.errors import UserError
from lps.files.atomic import write_checked
from lps.network import start_weights
from lps.network.weight_files import read_tensors
from lps.settings.config import configure
from lps.training import checkpoints
from tests.shares import OFFSET, share

MEMORY = 1 << 30  # bytes beyond what torch takes


def saved(value, **how) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, **how)
    return out.getvalue()


def shared_dictionaries(depth: int = 7, width: int = 12) -> bytes:
    """12**7 names of one tensor in less than 10 kB."""
    value = torch.ones(2)
    for _ in range(depth):
        value = dict.fromkeys((f"k{i}" for i in range(width)), value)
    return saved(value)


def changed(change, compressed: bool = False, tensor: int = 8) -> bytes:
    """A sound archive whose parts are what `change` makes of name and bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved({"x": torch.zeros(tensor)}))) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            how = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
            new.writestr(info.filename, change(info.filename, old.read(info)), how)
    return out.getvalue()


def with_listing(listing: bytes) -> bytes:
    return changed(lambda name, data: listing if name.endswith("data.pkl") else data)


def compressed() -> bytes:
    """256 MB of zeros in 256 kB."""
    return changed(lambda name, data: data, compressed=True, tensor=1 << 26)


def one_storage_many_times() -> bytes:
    """A storage of 32 MB, asked for under 200 names that a reader of archives takes for one."""
    asked = b"".join(
        b"X" + len(name).to_bytes(4, "little") + name + _tensor(f"0\0{i}", 1 << 23)
        for i, name in enumerate(f"t{i}".encode() for i in range(200))
    )
    listing = b"\x80\x02}(" + asked + b"u."
    return changed(lambda name, data: listing if name.endswith("data.pkl") else data, tensor=1 << 23)


def _tensor(key: str, count: int) -> bytes:
    """As a pickle lists a tensor of one dimension."""
    name = b"X" + len(key).to_bytes(4, "little") + key.encode()
    number = b"J" + count.to_bytes(4, "little")
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\n" + name + b"X\x03\0\0\0cpu" + number + b"tQ"
    rest = b"K\0" + number + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)Rt"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"R"


def an_array_of_bytes() -> bytes:
    return with_listing(b"\x80\x02}X\x01\0\0\0acbuiltins\nbytearray\n\x8a\x05\0\0\0\0\x04\x85Rs.")  # 2**34 bytes


def tuples_in_each_other() -> bytes:
    """A key whose hash takes 2**60 steps."""
    steps = b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60))
    return with_listing(b"\x80\x02})q\x00" + steps + b"K\x01s.")


def tuples_very_deep() -> bytes:
    """A key whose hash needs more stack than there is."""
    return with_listing(b"\x80\x02})" + b"\x85" * 500_000 + b"K\x01s.")


def slow_text() -> bytes:
    """Half a million letters, 5,000 different ones, in an encoding that takes the product of both."""
    text = "".join(chr(256 + i % 5000) for i in range(500_000)).encode()
    named = b"X" + len(text).to_bytes(4, "little") + text + b"X\x08\0\0\0punycode\x86R"
    return with_listing(b"\x80\x02}X\x01\0\0\0ac_codecs\nencode\n" + named + b"s.")


def long_listing() -> bytes:
    size = 64 << 20
    text = b"X" + size.to_bytes(4, "little") + bytes(size)
    return with_listing(b"\x80\x02](" + text + b"e.")


def larger_than_the_file() -> bytes:
    return with_listing(b"\x80\x02}X\x01\0\0\0a" + _tensor("0", 1 << 30) + b"s.")


def larger_than_the_file_of_old() -> bytes:
    old = saved({"x": torch.zeros(8)}, _use_new_zipfile_serialization=False)
    assert old.count(b"K\x08Ntq") == 1
    return old.replace(b"K\x08Ntq", b"J\0\0\0\x40Ntq")


def two_listings() -> bytes:
    out = io.BytesIO(changed(lambda name, data: data))
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("other/data.pkl", b"\x80\x02}.")
    return out.getvalue()


BOMBS = [
    shared_dictionaries, compressed, one_storage_many_times, an_array_of_bytes, tuples_in_each_other, tuples_very_deep,
    slow_text, long_listing, larger_than_the_file, larger_than_the_file_of_old, two_listings,
]  # fmt: skip
READ = """
import resource, sys
from pathlib import Path
from lps.errors import UserError
from lps.files import limited_process
from lps.network.weight_files import read_tensors
from lps.training import checkpoints
limited_process._SECONDS = 1  # what is too slow is not waited for: tests/files/test_limited.py has the limit itself
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
path = Path(sys.argv[1])
try:
    read_tensors(path)
except UserError as error:
    print(error)
found = checkpoints.load_checkpoint(path.parent, path.stem)
print("checkpoint", "None" if found is None else "loaded")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", share(BOMBS, OFFSET, 6), ids=lambda make: make.__name__)
def test_a_file_that_costs_more_than_it_holds_is_one_sentence(tmp_path, forks, make):
    """In a process of its own: memory and time are what it is about."""
    path = tmp_path / "weights.pt"
    write_checked(path, make())
    done = forks.run("-c", READ, path, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    *said, checkpoint, kilobytes = done.stdout.splitlines()
    assert len(said) == 1 and said[0].startswith("network.checkpoint: ") and said[0].isprintable(), said
    if make is not shared_dictionaries:  # a checkpoint of a run may hold them: nobody goes through them
        assert checkpoint == "checkpoint None"
    assert int(kilobytes) << 10 < MEMORY


def kept(version: int) -> dict:
    """What files of weights hold: tensors of every kind, optimizers, numbers and texts."""
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters(), betas=(0.9, 0.99))
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
             torch.uint8, torch.int8, torch.bool, torch.complex64]  # fmt: skip
    if version == 2:
        kinds += [torch.float8_e4m3fn, torch.uint16]
    tensors = {str(kind): torch.ones(5, 3).to(kind) for kind in kinds}
    whole = torch.arange(100.0)
    views = {"part": whole[10:20], "turned": whole.view(10, 10).T, "none": torch.empty(0), "number": torch.tensor(3.0)}
    return {
        "model": layer.state_dict(), "optimizer": optimizer.state_dict(), "tensors": tensors, "views": views,
        "epoch": 3,
        "share": 0.5, "name": "a", "bytes": b"\xff\0", "set": {1, 2}, "parameter": torch.nn.Parameter(whole),
        "generator": torch.get_rng_state(), "sizes": [whole.shape] * 3,
    }  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_what_torch_saves_passes(tmp_path, version):
    path, value = tmp_path / "a.pt", kept(version)
    path.write_bytes(saved(value, _use_new_zipfile_serialization=version == 2))
    found = read_tensors(path)
    assert list(found)[:2] == ["model.weight", "model.bias"]
    assert {name for name in found if name.startswith("views")} == {f"views.{name}" for name in value["views"]}
    for name, tensor in value["tensors"].items():
        assert torch.equal(found[f"tensors.{name}"].cfloat(), tensor.cfloat())
    assert torch.equal(found["views.turned"], value["views"]["turned"])
    shapes = read_tensors(path, shapes_alone=True)
    assert {name: tensor.shape for name, tensor in shapes.items()} == {name: t.shape for name, t in found.items()}


@pytest.mark.parametrize(
    "value", [torch.ones(3), [torch.ones(3)], {}, {"epoch": 3}, {("a", 1): torch.ones(3)}], ids=str
)
def test_a_file_without_names_says_so(tmp_path, value):
    torch.save(value, tmp_path / "a.pt")
    with pytest.raises(UserError, match="has no named tensors; expected a state dict"):
        read_tensors(tmp_path / "a.pt")


def test_values_are_not_read_of_a_file_that_does_not_fit(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    torch.save({"stem.0.weight": torch.zeros(3, 3)}, path)
    config = configure({"network.start": "checkpoint", "network.checkpoint": str(path)})
    asked = []

    def read(path: Path, shapes_alone: bool = False):
        asked.append(shapes_alone)
        return read_tensors(path, shapes_alone)

    monkeypatch.setattr(start_weights, "read_tensors", read)
    with pytest.raises(UserError, match="does not fit"):
        start_weights.check_start_weights(config, 1, 8, 8)
    assert asked == [True]


def test_a_checkpoint_of_a_run_is_read_as_it_was_written(tmp_path):
    value = kept(2)
    checkpoints.save_checkpoint(tmp_path, "step-00000001", value)
    found = checkpoints.load_checkpoint(tmp_path, "step-00000001")
    assert found.keys() == value.keys() and torch.equal(found["generator"], value["generator"])
