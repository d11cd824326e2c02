"""What all tests share."""

import os
import random
import signal
import sys
from collections import defaultdict

import hypothesis
import pytest

from backends import NUMPY, backend  # noqa: F401 (a fixture)

# The same examples each time, and few of them; many others by `make properties`.
hypothesis.settings.register_profile(
    "few", max_examples=20, derandomize=True, deadline=None, database=None
)
hypothesis.settings.register_profile("many", max_examples=1000, deadline=None, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def ctrl_c():
    """Have SIGINT interrupt us and what we start: as a background job we would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Files that take longest, to begin with: a process that starts on one at the end keeps all waiting.
LONGEST = (
    *("test_tuning", "test_command", "test_cluster", "test_estimators", "test_compression"),
    *("test_parallel", "test_memmap", "test_fits", "test_backends", "test_examples"),
    *("test_gap", "test_classifiers", "test_members", "test_path", "test_simulate"),
)


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="a few cases of each test, on NumPy")
    parser.addoption(
        "--thin", action="store_true", help="at most 5 cases of each test, without the longest"
    )


# Cases of a test on each of the other libraries, where the lines are the same; with --quick there
# are none, and so many of any test; with --thin, so many on each library.
OTHERS, QUICK, THIN, THIN_OTHERS = 2, 4, 5, 1

# Tests of several seconds each that --thin leaves to `make slow`: processes that are killed, disks
# that fill up, whole terminals, random inputs, and comparisons that others make on a smaller scale.
LONG_TESTS = {
    "test_a_block_that_is_another_when_it_is_loaded_again",
    "test_a_cluster_on_this_machine_needs_no_port_of_its_own",
    "test_a_cluster_that_is_not_there",
    "test_a_comparison_cut_short_has_what_is_finished",
    "test_a_file_that_is_no_schedulers_is_refused",
    "test_a_fit_without_enough_memory_says_so_and_writes_nothing",
    "test_a_full_disk_costs_nothing_that_was_finished",
    "test_a_process_that_dies_is_replaced",
    "test_a_read_only_folder",
    "test_a_study_keeps_what_there_was_memory_for_and_goes_on_from_there",
    "test_a_study_on_a_full_disk_goes_on_where_it_was",
    "test_a_warm_start_goes_on_from_where_it_stopped",
    "test_a_worker_that_is_killed_in_a_run",
    "test_a_worker_that_is_killed_while_a_penalty_is_chosen",
    "test_a_worker_with_other_code_is_refused",
    "test_all_tasks_are_done_in_batches_that_fit",
    "test_an_end_of_the_grid_that_does_not_matter_is_not_said",
    "test_any_backend",
    "test_auto_starts_where_coefficients_vanish",
    "test_blocks_that_are_no_good",
    "test_converged_fits_are_those_of_scikit_learn",
    "test_cut_off_after_any_byte",
    "test_double_precision_reaches_far",
    "test_duality_gaps_of_margin_losses_are_bounds_and_vanish",
    "test_eight_commands_that_write_the_same_files",
    "test_eight_fits_in_processes_are_those_one_after_the_other",
    "test_estimators_with_weights_and_warm_starts",
    "test_figures_of_stopping",
    "test_gap_bounds_the_distance_to_a_conic_program",
    "test_grid_search",
    "test_killed_at_random_a_study_comes_to_the_same_end",
    "test_limits_are_those_of_logistic_regression",
    "test_memory_stays_far_below_the_data",
    "test_nested_cross_validation_is_what_its_name_says",
    "test_no_failure_without_a_warning",
    "test_no_findings",
    "test_nobody_to_print_to",
    "test_nothing_is_run_or_fetched_while_the_command_works",
    "test_other_blocks_in_files",
    "test_other_processes_find_the_same_bits_and_other_threads_the_same_numbers",
    "test_plots_of_classes",
    "test_processes_find_the_same_to_the_last_bit",
    "test_quantiles_are_those_of_statsmodels",
    "test_replications_are_what_a_study_expects",
    "test_risk_at_the_choice_is_the_error_on_new_rows",
    "test_small_files_of_gigabytes_are_refused",
    "test_standard_errors_are_on_the_safe_side",
    "test_stopped_it_says_that_what_is_finished_is_kept",
    "test_the_largest_model",
    "test_the_losses_are_not_independent",
    "test_what_a_terminal_cannot_show",
    "test_what_compresses_well_is_read",
    "test_what_has_converged_gives_no_warning",
    "test_while_a_command_imports_what_it_needs",
    "test_wrong_estimates_are_found_out",
}


def pytest_collection_modifyitems(config, items):
    """Put the longest first; leave out cases that `backends.everywhere` does not want."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    quick, thin = config.getoption("quick"), config.getoption("thin")
    others = THIN_OTHERS if thin else OTHERS
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("every")
        library = item.callspec.params["backend"] if mark else NUMPY
        every = mark.args[0] if mark else 1
        cases[getattr(item, "originalname", ""), str(item.path), library, every].append(item)
    left_out = {item for item in items if thin and getattr(item, "originalname", "") in LONG_TESTS}
    for (name, _, library, every), found in cases.items():
        if library != NUMPY:
            most = 0 if quick else min(others, -(-len(found) // every))
        elif quick or thin:
            most = min(QUICK if quick else THIN, len(found))
        else:
            continue
        # others on each library, but the same each time
        left_out |= {*found} - {*random.Random(f"{name} {library}").sample(found, most)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def no_figures(monkeypatch):
    """Leave out the figures of studies, which take longer than all else."""
    monkeypatch.setattr("steinpath.study._runner.write_figures", lambda folder, exhibits: [])
