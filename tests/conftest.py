"""Fixtures for all tests: pages start no training of their own, and nothing outside the test's folder is touched."""

import contextlib
import functools
import gc
import gettext
import importlib
import os
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

with contextlib.suppress(ImportError):  # tests.dependencies has an environment without it
    from hypothesis import HealthCheck, settings

    # How long one example takes says how busy the machine is; what must be quick says so with a limit of its own.
    settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("suite")

# Some machines ask Python to keep no compiled modules; every worker and every command of the tests would then
# compile thousands of modules of torch and of the dashboard again, which takes longer than most tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Every parser of commands asks the disk for translations, of each of its words anew.
_find_catalog = functools.cache(gettext.find)
gettext.find = lambda domain, localedir=None, languages=None, all=False: _find_catalog(
    domain, localedir, languages and tuple(languages), all
)

# All workers take the cases of the day on which the first one began (tests/shares.py).
os.environ.setdefault("LPS_OFFSET", str(int(time.time() // 86_400)))

# Every core has a worker; the threads of a second matrix product beside it would only wait for each other, spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts a background job (`make test &`) with SIGINT ignored, and every command of the tests would inherit it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# torchvision imports Triton, which only a GPU needs; at exit it prints pages of "leaked function" after our last line.
if not os.path.exists("/dev/nvidiactl"):
    sys.modules["triton"] = None


def pytest_ignore_collect(collection_path, config):
    """Tests in a browser that are not asked for need not be imported, and Playwright with them; where browser and
    cluster alone are asked for, the 300 other files need not be, nor what is for all of a folder, which takes each
    worker 20 seconds."""
    if collection_path.name == "browser" and "not browser" in config.option.markexpr:
        return True
    is_folder = collection_path.parent == Path(__file__).parent and collection_path.is_dir()
    if config.option.markexpr == "browser or slurm" and (is_folder or collection_path.match("test_*.py")):
        files = collection_path.glob("test_*.py") if is_folder else [collection_path]
        return not any(path.parent.name == "browser" or b"mark.slurm" in path.read_bytes() for path in files) or None
    return None


@pytest.hookimpl(optionalhook=True)  # tests.mutants runs without pytest-xdist
def pytest_xdist_auto_num_workers(config):
    """Two workers for two cores in the quick tests; three where tests wait for processes, four for a browser."""
    wanted, cores = config.option.markexpr, os.cpu_count() or 1
    if "not slow" in wanted:
        return cores
    if wanted == "browser or slurm":
        return min(2 * cores, 8)  # each has a browser and servers, a gigabyte of memory
    return cores * 3 // 2


def pytest_collection_modifyitems(config, items):
    """`make test` takes the expensive tests whose turn it is today; one that is asked for by its name always runs."""
    from tests.shares import has_turn

    turns = {item: item.get_closest_marker("turn") for item in items} if config.option.markexpr else {}
    waiting = {item for item, turn in turns.items() if turn and not has_turn(*turn.args)}
    items[:] = [item for item in items if item not in waiting]
    config.hook.pytest_deselected(items=[*waiting])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    """The modules of all tests, a million objects, need not be looked through for garbage again and again."""
    gc.disable()
    _import_backwards(session.config)
    result = yield
    gc.freeze()
    gc.enable()
    return result


def _import_backwards(config):
    """In a fresh clone a worker compiles every file of tests. Every second one begins with the last file, and from the
    middle on each reads what another has compiled: 24 processor seconds for two workers, not 42."""
    here = Path(__file__).parent
    is_second = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2
    if is_second and [Path(argument).resolve() for argument in config.args] == [here]:
        for path in sorted(here.rglob("test_*.py"), reverse=True):
            if not any(pytest_ignore_collect(each, config) for each in (path, path.parent)):
                if str(path.parent) not in sys.path:
                    sys.path.insert(0, str(path.parent))  # as pytest does, which reports what fails
                with contextlib.suppress(Exception, pytest.skip.Exception):
                    importlib.import_module(path.stem)


def pytest_unconfigure(config):
    """The last line after a failure is the command that runs the first failed test alone."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    failed = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())] if reporter else []
    if failed:
        reporter.write_line(f"Run it alone: {shlex.join([sys.executable, '-m', 'pytest', failed[0].nodeid])}")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Thousands of runs of a hundred small files each are written, and the machine stays on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def forks():
    """Runs Python in processes that have torch and the package imported (`tests.forks`)."""
    from tests.forks import Forks

    served = Forks()
    yield served
    served.end()


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    """A finished run on 200 digits. Tests leave it as it is, or change a copy."""
    from tests.inference.test_prediction import KINDS
    from tests.short_runs import finished_run

    return finished_run(tmp_path_factory.mktemp("runs"), **KINDS["live"])


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder of runs that does not exist yet, and two slots."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    return tmp_path / "runs"


@pytest.fixture
def open_page(request, monkeypatch):
    """open_page(root, cluster=7) -> the page that a file of tests is about, its PAGE, with the runs of a folder."""
    from tests.visiting import visit

    def open_one(root, **query):
        monkeypatch.setenv("LPS_RUNS", str(root))
        texts = {key: value if isinstance(value, list) else str(value) for key, value in query.items()}
        return visit(request.module.PAGE, **texts)

    return open_one


@pytest.fixture(scope="session")
def nowhere(tmp_path_factory):
    """A folder that only the tests that need it make, and that each of them finds gone."""
    return tmp_path_factory.getbasetemp() / "made by one test"


@pytest.fixture(autouse=True)
def surroundings(request, monkeypatch, nowhere):
    """What every test finds around it, in one fixture: six of them would take as long as many a test."""
    page_test = request.module.__name__.rpartition(".")[2].startswith("test_pages")
    if page_test:
        # Pages heal the queue as they refresh; in their tests, sample runs that look queued must stay where they are.
        monkeypatch.setattr("lps.scheduler.launcher.dispatch", lambda root, trainer=None: [])
        monkeypatch.setattr("lps.scheduler.launcher.has_daemon", lambda root: True)
    if page_test and "recordings" not in request.module.__name__:
        # Tests of pages see the runs that they made; those that are about recordings say so in their name.
        monkeypatch.setattr("lps.store.run_folders.RECORDED", nowhere / "no recordings")
    if not request.node.get_closest_marker("slow"):
        _refuse_real_trainings(monkeypatch)
    if request.path.parent.name not in ("files", "hostile", "training", "reliability"):
        # A file of weights is first tried in a fork, which copies the tables of a gigabyte of memory; these rooms have
        # the tests of that, the others read hundreds of sound ones.
        monkeypatch.setattr("lps.files.limited_process.run_limited", lambda operation, size: None)
    if "torch" in sys.modules:
        # A training inside this process leaves its number of threads to the tests after it.
        sys.modules["torch"].set_num_threads(1)
    # No test reads or leaves decoded pictures in the cache of the person who runs it, or anything among their own.
    monkeypatch.setenv("LPS_CACHE", str(nowhere / "picture cache"))
    monkeypatch.setenv("LPS_DECISIONS", str(nowhere / "decisions"))
    monkeypatch.setenv("LPS_PICTURES", str(nowhere / "pictures"))
    yield
    shutil.rmtree(nowhere, ignore_errors=True)


def _refuse_real_trainings(monkeypatch):
    """A quick test has a trainer of its own: ours would go on for minutes, on the cores of the tests after it."""
    from lps.scheduler import launcher

    def spawn(run, attempt, slots, locks, trainer, spawn=launcher._spawn):
        assert trainer != launcher.TRAINER, "a quick test starts a real training"
        spawn(run, attempt, slots, locks, trainer)

    monkeypatch.setattr(launcher, "_spawn", spawn)
