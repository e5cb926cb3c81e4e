"""What should be trained? Data, split, method and settings; one click makes one run per seed."""

import streamlit as st

from lps import catalog
from lps.parameters import ConfigError
from lps.ui import counting, escape, fields, forms, notices, places, routing, select, splits, starting, style

TITLES = {"training": "Training", "network": "Network", "pretrain": "Pretraining", "dataset": "Data set"}

routing.through_app()
draft = fields.draft()
place = places.read()
reading = forms.checked(forms.read(draft), place.is_here)
visit = starting.take("launch")
failure = ""
if visit and reading.configs:
    try:
        started = starting.start("launch", visit, reading.configs, draft.name, place)
    except ConfigError as error:
        failure = str(error)
    else:
        st.switch_page("pages/live.py", query_params={"run": started})
fields.write_link()

split, errors = None, dict(reading.errors)
try:
    split_config = forms.split_config(draft)
    split = splits.preview(split_config)
except ConfigError as error:
    errors.setdefault(error.name, forms.sentence(error))

fields.show_title()
for notice in st.session_state.pop("launch_notices", []):
    st.warning(escape.markdown(notice), icon=":material/link_off:")

st.subheader("Data set", anchor=False)
fields.choose("dataset", "Data set", catalog.dataset_titles())
st.caption(catalog.dataset_info(draft.dataset).summary)
about = catalog.dataset_info(draft.dataset)
if about.path:
    fields.type_into("dataset.path", about.path, errors.get("dataset.path"))
fields.choose_effort()
images = splits.show_samples(draft)

st.subheader("Split", anchor=False)
controls, chips = st.columns([2, 3], gap="large")
with controls:
    if images:
        splits.show_controls(images, split, errors, lambda: counting.show(counting.config_of(reading, draft)))
with chips:
    if split:
        splits.show_chips(split_config, split, style.palette())
    else:
        st.caption("The classes appear here once the split is possible.")

st.subheader("Method", anchor=False)
method = catalog.method_info(draft.method)
fields.choose("method", "Method", catalog.method_titles())
fields.show_method(method)

groups = forms.groups(draft.method)
groups.pop("split")
groups["dataset"] = [member for member in groups["dataset"] if not (about.path and member.name == "dataset.path")]
st.markdown(fields.heading("**Hyperparameters**", groups["method"], errors))
fields.show_grid(groups.pop("method"), errors)
for group, members in groups.items():
    with st.expander(fields.heading(TITLES.get(group, group.capitalize()), members, errors), key=f"group:{group}"):
        fields.show_grid(members, errors)

st.subheader("Run", anchor=False)
with st.grid(columns="auto", min_column_width=fields.COLUMN, gap="medium"):
    fields.write("seeds", "Seeds", errors.get("seed"), "One run per seed, such as 0, 1, 2")
    fields.choose_device(errors.get("device"), place.is_here)
    fields.write("name", "Name", None, "Optional, for people", placeholder="No name", max_chars=120)
places.show(several=len(reading.configs) > 1)
notices.show_shortage(reading.configs)
if reading.configs:
    st.caption("The same on the command line")
    st.code(places.command(forms.commands(draft, reading), place), language="bash", wrap_lines=True)

with st.bottom, st.container(horizontal=True, vertical_alignment="center"):
    if failure:
        st.markdown(f":red[{escape.markdown(failure)}]", width="stretch")
    elif place.errors:
        st.markdown(f":red[SLURM: {escape.markdown(forms.obstacle(place.errors))}]", width="stretch")
    elif reading.configs and split:
        usual = forms.usual_time(reading.configs[0], images, select.runs_root())
        st.markdown(f"{forms.summary(draft, reading)}{usual}", width="stretch")
    else:
        st.markdown(f":red[{escape.markdown(forms.obstacle(errors))}]", width="stretch")
    runs = max(1, len(reading.configs))
    label = f"Launch {runs} runs" if runs > 1 else "Launch"
    blocked = not (reading.configs and split) or bool(place.errors)
    starting.button(label, "launch", type="primary", icon=":material/rocket_launch:", disabled=blocked)
