"""The order of the gallery: what most readers want first."""

from __future__ import annotations

ORDER = (
    "early_stopping",
    "tuning",
    "diabetes",
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
    """A key to sort examples by; those without a place come last."""

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        """Return the place of a file."""
        name = file.removeprefix("plot_").removesuffix(".py")
        return ORDER.index(name) if name in ORDER else len(ORDER), name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(ORDER)}>"
