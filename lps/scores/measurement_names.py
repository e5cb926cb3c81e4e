"""Display names of measurements."""

MEASUREMENT_NAMES = {
    "accuracy/seen": "Seen accuracy",
    "accuracy/novel": "Novel accuracy",
    "accuracy/all": "Accuracy on all",
    "accuracy/gap": "Gap, seen minus novel",
    "accuracy/conflict": "Conflict (accuracy lost because seen and novel share one matching)",
    "accuracy/balanced": "Balanced accuracy (mean over classes)",
    "accuracy/many": "Accuracy, large classes",
    "accuracy/medium": "Accuracy, medium classes",
    "accuracy/few": "Accuracy, small classes",
    "accuracy/std": "Standard deviation of the accuracy over classes",
    "accuracy/validation": "Accuracy on withheld labels",
    "nmi/novel": "NMI of novel images",
    "nmi/all": "NMI of all images",
    "ari/novel": "ARI of novel images",
    "test/accuracy/seen": "Test images: seen",
    "test/accuracy/novel": "Test images: novel",
    "test/accuracy/all": "Test images: all",
    "prior/error": "Error of the prior (total variation)",
    "class/prior": "Prior of every class",
    "kl": "KL of the estimated class distribution",
}
# Measurement -> display name, format and unit. The default columns of the Runs table are in lps/tables/columns.py.
COSTS = {
    "memory/host_gb": ("Peak memory", ".2f", "GB"),
    "memory/device_gb": ("Peak GPU memory", ".2f", "GB"),
    "throughput/images_per_s": ("Throughput", ",.0f", "images/s"),
    "time/step_s": ("Time per step", ".3f", "s"),
}


def measurement_name(key: str) -> str:
    """Return the display name for a key of the event log: "loss/pseudo_label" is "Loss, pseudo label"."""
    if key in COSTS:
        name, _, unit = COSTS[key]
        return f"{name}, {unit}"
    spelled_key = key.replace("_", " ").replace("/", ", ")
    return MEASUREMENT_NAMES.get(key, spelled_key[:1].upper() + spelled_key[1:])


def cost_text(key: str, value: float) -> str:
    """Return the value of one of `COSTS` with its unit: "0.70 GB"."""
    _, number_format, unit = COSTS[key]
    return f"{value:{number_format}} {unit}"
