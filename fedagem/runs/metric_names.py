"""How metrics are called in front of people."""

_NAMES = {
    "map_50": "mAP@0.5",
    "map": "mAP@[.5:.95]",
    "ap_50": "AP@0.5",
    "accuracy": "accuracy",
    "domain_il": "domain-IL",
    "class_il": "class-IL",
    "task_il": "task-IL",
}


def shown_name(metric: str) -> str:
    """`map_50/city` as `mAP@0.5 city`."""
    return " ".join(_NAMES.get(part, part) for part in metric.split("/"))
