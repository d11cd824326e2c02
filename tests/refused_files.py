"""What is said of files that cannot be read."""

import pytest

from steinpath.app.tables import DataError, read_table


def message_about(file):
    """The reason that is given, on one line, after the file's name."""
    with pytest.raises(DataError) as caught:
        read_table(file)
    message = str(caught.value)
    assert message.startswith(f"cannot read {file}: ")
    assert len(message.splitlines()) == 1
    return message.removeprefix(f"cannot read {file}: ")
