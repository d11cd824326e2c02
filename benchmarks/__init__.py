"""Benchmarks, in folders by subject; results in ``results/``, read on the pages of docs/results.

    python -m benchmarks.peers.tables --quick       # from the root of the repository

- ``accuracy``: estimates of risk and intervals, compared with the truth.
- ``peers``: time and error, compared with other packages.
- ``speed``: cost of algorithms, of the command, and its growth with the size of the data.
- ``scale``: data on disk, on a device, on a cluster.
- ``common``: data sets, methods and measuring that these share.
"""
