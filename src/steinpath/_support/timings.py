"""Run times by which methods are chosen, in seconds: measured on two cores of an AMD EPYC, 2026-11.

The commands named below time whole runs of the same methods, with which these can be compared; they
do not print these numbers. Change them here only. They decide how a result is computed, never what
it is.
"""

# ----- Methods of a risk estimate: compare with python -m benchmarks.speed.growth -----

#: A step of a run that leaves rows out: the calls, each entry of X times a column, and each entry
#: of the iterates beyond the caches, where reading takes longer than multiplying.
LEAVE_OUT_CALLS, LEAVE_OUT_ENTRY, LEAVE_OUT_STATE = 2e-4, 6e-11, 12e-9
#: A step of the tangents of "compressed": the calls, and each entry of X with all probes.
TANGENT_CALLS, TANGENT_ENTRY = 5e-4, 64e-11
#: "exact": each entry of X times a basis vector, and pair of iterations.
EXACT_ENTRY = 2e-11
#: "spectral": an iteration; the cube of the smaller side and each entry of X times that side, for
#: eigenvalues alone and with their vectors.
SPECTRAL_CALLS = 3e-4
EIGENVALUES_CUBE, EIGENVALUES_ENTRY = 6e-11, 2e-11
EIGENVECTORS_CUBE, EIGENVECTORS_ENTRY = 1.5e-10, 6e-11

# ----- Rough estimates of many paths, on one core: compare with python -m benchmarks.peers.tuning

#: A step of a column: each entry of X, and each entry of an iterate.
COLUMN_ENTRY, COLUMN_STATE = 5e-11, 1.2e-8
#: The calls of a step: of the tangents of one path, and of the folds of all.
ROUGH_TANGENT_CALLS, ROUGH_FOLD_CALLS = 1.5e-4, 2e-4
#: Share of the entries that sparse tangents touch.
SPARSE_TANGENTS = 0.3

# ----- Length of a search: compare with python -m benchmarks.speed.growth -----

#: Entries of X that an entry of an iterate counts for, in the work of a step.
STATE_WORK = 200
#: Work, in multiplications with entries of X: half a minute, and a tenth of a second.
HALF_A_MINUTE, TENTH_OF_A_SECOND = 2e11, 1e9
