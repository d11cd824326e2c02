"""Change the numerical core in small ways, one at a time, and see whether the tests notice.

What is changed, and by which tests it should be noticed, is said in ``pyproject.toml``. Results are
kept in ``mutants/``: a run that was stopped goes on where it was, and after a change only mutants
of changed functions run again.

mutmut changes the bodies of functions and methods. It leaves out what has a decorator (here the
properties, which are one line each, and one cached function) and what stands outside of functions:
constants, and the attributes and default values of dataclasses.
"""

import argparse
import json
import os
from collections import Counter
from pathlib import Path

# A process per core, and one thread in each. NumPy looks at these when it is first imported.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

#: A mutant that was stopped because its tests took too long was noticed.
NOTICED = ("killed", "timeout")


def run(names, processes):
    """Run mutants, until all are done or the run is interrupted."""
    import pytest
    from mutmut.__main__ import _run

    if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 asks for it; pytest 9.2 has it no more
        pytest.Item._nodeid = property(lambda item: item.nodeid)
    try:
        _run(names, processes)
    except KeyboardInterrupt:
        print("interrupted: the next run goes on from here")


def summarise():
    """Count mutants by module and status; show those that no test noticed."""
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.file_utils import walk_mutatable_files

    modules, unnoticed = {}, []
    for path in sorted(walk_mutatable_files()):
        data = SourceFileMutationData(path=path)
        data.load()
        found = {name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items()}
        modules[path.stem] = Counter(found.values())
        for name, status in found.items():
            if status not in (*NOTICED, "not checked"):
                diff = get_diff_for_mutant(name, path=path)
                unnoticed.append({"mutant": name, "status": status, "diff": diff})
    total = sum(modules.values(), Counter())
    checked = total.total() - total["not checked"]
    return {
        "checked": checked,
        "noticed": sum(total[status] for status in NOTICED),
        "all": total,
        "modules": modules,
        "unnoticed": unnoticed,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="patterns of mutants to run again; all new ones")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("mutants"), help="folder of the summary")
    options = parser.parse_args()
    run(tuple(options.names), options.processes)
    summary = summarise()
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    (options.out / "summary.json").write_text(text + "\n", encoding="utf-8")
    for module, counts in summary["modules"].items():
        print(f"{module:12}", dict(counts))
    share = summary["noticed"] / max(1, summary["checked"])
    print(f"{summary['noticed']} of {summary['checked']} mutants noticed: {share:.1%}")


if __name__ == "__main__":
    main()
