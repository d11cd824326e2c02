"""The command ``steinpath``."""

from steinpath.cli.bench import bench
from steinpath.cli.demo import demo
from steinpath.cli.entry import main
from steinpath.cli.fit import compare, fit, tune
from steinpath.cli.predict import predict
from steinpath.cli.study import study

__all__ = ["main"]

for _command in (fit, tune, compare, predict, demo, study, bench):
    main.add_command(_command)
