"""The command, files of tables, the report, and model files."""

#: Tasks.
TASKS = ("regression", "classification")
#: Confidence level of each interval, and the false discovery rate at which features are marked.
LEVEL, FDR = 0.95, 0.1
#: Features with intervals, if each of them requires a regression on all others.
MOST_FEATURES = 200
