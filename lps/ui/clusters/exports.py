"""Export the labels: as a table, as a .zip of pictures, or as a folder beside the run's files."""

from collections import Counter
from functools import partial
from pathlib import Path

import streamlit as st

from lps.analysis import labels
from lps.analysis.labels import Labels
from lps.datasets import Images
from lps.errors import UserError
from lps.interop import class_folders, label_files
from lps.settings import cli_args
from lps.store.titles import short_id
from lps.ui.pictures import nouns
from lps.ui.pictures.predictions import PredictionView
from lps.ui.server import downloads
from lps.ui.shared import escape, export_buttons, select
from lps.wording import counted

_WRITTEN = "exports_written"  # (run id, folder or error) of the last export
_KINDS = {"copies": "Copies", "links": "Links"}


def show_exports(view: PredictionView, images: Images | None) -> None:
    """Show what the labels are now, and the ways to export them."""
    st.subheader("Export labels", anchor=False)
    run_labels = labels.build_labels(view.epoch, view.split, view.targets, view.network, view.decisions, view.defaults)
    st.caption(_count_labels(run_labels, view))
    files, say = images.file_names if images is not None else (), nouns.of(view.run)
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        make_csv = partial(label_files.as_csv, run_labels, files)
        file_name = f"labels-{short_id(view.run.id)}-epoch-{view.epoch}.csv"
        export_buttons.offer_download("Download CSV", make_csv, file_name, "labels_csv")
        if images is not None:
            help_text = say("One folder of pictures per class, and the table of labels. Pictures that you marked as ")
            help_text += "“Not in this cluster” or “None of these” are in the folder unlabeled"
            export_buttons.offer_file(
                "Download ZIP", downloads.labels_address(view.run, view.epoch), "folder_zip", help_text
            )
        links = False
        if files:
            kind = st.segmented_control(
                say("Pictures"),
                list(_KINDS),
                format_func=_KINDS.get,
                key="export_kind",
                default="copies",
                required=True,
            )
            links = kind == "links"
        st.button(
            say("Write a folder of pictures"),
            key="write_folder",
            icon=":material/create_new_folder:",
            disabled=images is None,
            help="Writes the files of the ZIP to a folder on the server",
            on_click=_write_folder,
            args=(view, run_labels, images, links),
        )
    st.caption(_explain_columns(bool(files)))
    _show_written_folder(view)
    export_buttons.show_command(_export_command(view))


def _count_labels(run_labels: Labels, view: PredictionView) -> str:
    """Describe how many images have which kind of label."""
    counts = Counter(run_labels.sources)
    named_clusters = {*view.decisions.names, *view.defaults}
    named = sum(
        c in named_clusters
        for c, source in zip(run_labels.cluster.tolist(), run_labels.sources)
        if source == "predicted"
    )
    given_count = counts["labeled"] + counts["withheld"]
    config = view.run.config_if_readable()
    is_continued = config and config.split_confirmed
    label_source = "a label from you or from clusters named in an earlier run" if is_continued else "your label"
    sentences = [f"{counted(len(run_labels.images), nouns.of(view.run)('image'))}: {given_count:,} with {label_source}"]
    sentences.append(f"{named:,} with a predicted label (their cluster has a name)")
    sentences.append(f"{counts['predicted'] - named:,} in clusters without a name")
    rejected = view.decisions.rejected
    what = "marked as not a class" + ", not in the cluster or none of these" * bool(view.decisions.unlabeled)
    sentences += [f"{counts['rejected']:,} {what}"] if counts["rejected"] else []
    text = ", ".join(sentences) + "."
    if counts["withheld"]:
        text += f" The labels include {counts['withheld']:,} withheld ones. Training does not see them, so the table "
        text += f"of clusters counts their {nouns.of(view.run)('images')}, too"
        cluster_and_source = zip(run_labels.cluster.tolist(), run_labels.sources)
        inside = sum(source == "withheld" and cluster in rejected for cluster, source in cluster_and_source)
        text += f" ({inside:,} in clusters that are not a class)." if inside else "."
    return text


def _explain_columns(has_files: bool) -> str:
    """Explain the columns of the table that look alike or may be empty."""
    sentence = (
        "In the CSV file, `predicted` is the id that the network predicted, and `cluster` is the id after your merges "
        "and splits."
    )
    return sentence if has_files else f"{sentence} `file` is empty, because this data set has no files."


def _export_command(view: PredictionView) -> str:
    """Return the command with the same effect."""
    line = cli_args.format_command("export", short_id(view.run.id), epoch=view.epoch, to="labels.csv")
    return f"{line}    # or a folder: --to labels"


def _write_folder(view: PredictionView, run_labels: Labels, images: Images, links: bool) -> None:
    target = class_folders.free_path(select.output_folder(view.run) / "exports", f"epoch-{view.epoch:04d}")
    path = view.run.config().dataset_path
    try:
        written = label_files.write_folder(target, run_labels, images, Path(path) if path else None, links)
    except UserError as error:
        st.session_state[_WRITTEN] = view.run.id, None, str(error)
    else:
        st.session_state[_WRITTEN] = view.run.id, str(written), ""


def _show_written_folder(view: PredictionView) -> None:
    run, folder, error = st.session_state.get(_WRITTEN, (None, None, ""))
    if run != view.run.id:
        return
    if error:
        st.error(escape.sentence(error), icon=":material/error:")
    elif folder:
        st.caption("This folder was written. It also contains the table labels.csv:")
        st.code(folder, language=None, wrap_lines=True)
