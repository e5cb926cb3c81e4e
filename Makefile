# make app: set up and open the dashboard (make app PORT=8600: on another port). make test: set up and run all tests.
# make quick: the tests that take less than 0.2 s each. make check: style only. make docs: site/.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: app test quick check docs clean

# A suite starts hundreds of processes; each would compile torch's sources anew.
unexport PYTHONDONTWRITEBYTECODE

app: .venv/ready
	$(BIN)/streamlit run app.py $(if $(PORT),--server.port $(PORT))

test: .venv/ready-for-tests check
	$(BIN)/python -m pytest -m "not browser and not slurm" -n auto --dist worksteal
	$(BIN)/python -m pytest -m "browser or slurm" -n auto --dist loadfile --no-loadscope-reorder

quick: .venv/ready-for-tests check
	$(BIN)/python -m pytest -m "not slow and not browser and not slurm" -n auto --dist worksteal

check: .venv/ready-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

docs: .venv/ready-for-tests
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis

# uv only because it installs several times faster than pip; both read the same files.
.venv/uv:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv
	touch $@

.venv/ready: .venv/uv requirements.txt requirements-train.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.txt
	touch $@

.venv/ready-for-tests: .venv/ready tests/requirements.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r tests/requirements.txt
	touch $@
