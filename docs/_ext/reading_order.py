"""The order of the gallery: introductory examples first."""

from __future__ import annotations

ORDER = (
    "early_stopping",
    "tuning",
    "diabetes",
    "from_a_data_frame",
    "engel",
    "intervals",
    "svm_error",
    "reliability",
    "which_loss",
    "which_penalty",
    "audit",
    "recursion",
    "gpu",
    "cluster",
)


class ReadingOrder:
    """Sort key for examples; those not listed come last."""

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        """Return the position of a file."""
        name = file.removeprefix("plot_").removesuffix(".py")
        return ORDER.index(name) if name in ORDER else len(ORDER), name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(ORDER)}>"
