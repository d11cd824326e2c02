"""The command ``steinpath``."""

from steinpath.app.cli.bench import bench
from steinpath.app.cli.demo import demo
from steinpath.app.cli.entry import main
from steinpath.app.cli.fit import compare, fit, tune
from steinpath.app.cli.predict import predict
from steinpath.app.cli.study import study

__all__ = ["main"]

for _command in (fit, tune, compare, predict, demo, study, bench):
    main.add_command(_command)
