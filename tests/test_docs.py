"""Code in the documentation runs, the reference is complete, and links resolve."""

import ast
import functools
import importlib.util
import inspect
import math
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import steinpath as sp
from problems import LOSS_EXAMPLES, PENALTY_EXAMPLES, draw
from steinpath.problem import Loss
from steinpath.risk import _diagnostics as diagnostics

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    page
    for folder, pattern in [(DOCS, "*.md"), (DOCS, "results/*.md"), (DOCS, "*.rst"), (ROOT, "*.md")]
    for page in sorted(folder.glob(pattern))
]


def snippet(name, member):
    """Return a class shown in a guide."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "snippets" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, member)


BoundedLasso = snippet("bounded_lasso", "BoundedLasso")
PositiveLasso = snippet("positive_lasso", "PositiveLasso")
HeavyBall = snippet("heavy_ball", "HeavyBall")
DampedArrowHurwicz = snippet("damped", "DampedArrowHurwicz")
Expectile = snippet("expectile", "Expectile")

PENALTIES = [BoundedLasso(0.3, bound=0.4), PositiveLasso(0.3)]
ALGORITHMS = [
    (sp.Huber(), HeavyBall()),
    (sp.Huber(), HeavyBall(0.2, momentum=0.3)),
    (sp.LAD(), DampedArrowHurwicz(0.3, 0.3)),
]


# ----- The guides' penalties and algorithms -----


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: penalty.name)
@pytest.mark.parametrize("step", [0.2, 1.0, 3.0])
def test_prox_is_the_minimum_and_jacobian_its_derivative(penalty, step):
    grid = np.linspace(-3, 3, 60_001)
    values = penalty.value(grid[None, :])
    if isinstance(penalty, BoundedLasso):
        values = np.where(np.abs(grid) <= penalty.bound, values, np.inf)
    b = np.array([-2.3, -0.73, -0.31, -0.02, 0.04, 0.33, 0.61, 0.93, 1.45, 2.6])
    found = penalty.prox(b, step)
    for b_j, x_j in zip(b, found, strict=True):
        assert x_j == pytest.approx(
            grid[np.argmin(step * values + (grid - b_j) ** 2 / 2)], abs=1e-4
        )
    h = 1e-6
    slopes = (penalty.prox(b + h, step) - penalty.prox(b - h, step)) / (2 * h)
    np.testing.assert_allclose(penalty.jacobian(b, step)(np.ones_like(b)), slopes, atol=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: penalty.name)
def test_penalties_run_converge_and_tune(penalty):
    X, y, _ = draw(80, 12)
    path = sp.run(X, y, sp.Huber(), penalty, sp.FISTA(), n_iter=2000)
    other = sp.run(X, y, sp.Huber(), penalty, n_iter=4000)
    assert path.objective[-1] == pytest.approx(other.objective[-1], rel=1e-6)
    # no feasible point nearby is better
    rng, best = np.random.default_rng(0), path.coef[-1]
    for size in (1e-3, 1e-2, 1e-1):
        for b in penalty.prox(best + size * rng.standard_normal((50, 12)), 0.0):
            value = sp.Huber().value(y - X @ b) + penalty.value(b)
            assert value >= path.objective[-1] - 1e-9
    kind = type(penalty)
    lam = sp.lam_max(X, y, sp.Huber(), kind(1.0))
    for factor, nonzeros in ((1.001, False), (0.9, True)):
        end = sp.run(X, y, sp.Huber(), kind(factor * lam), sp.FISTA(), n_iter=300).coef[-1]
        assert (np.abs(end).max() > 1e-6) == nonzeros
    model = sp.PathRegressor(penalty=kind, n_alphas=4, n_iter=40, random_state=0).fit(X, y)
    assert model.coef_.shape == (12,)
    assert sp.tune(X, y, sp.LAD(), kind, 3, 20, rng=0).risk.shape == (3, 21)


@pytest.mark.parametrize("q", [0.5, 0.8])
def test_the_loss_converges_to_reweighted_least_squares(q):
    """An independent truth: the stationary point of least squares with weights by sign."""
    X, y, _ = draw(80, 12)
    b = np.zeros(12)
    for _ in range(200):
        w = np.where(y > X @ b, q, 1 - q)
        b = np.linalg.solve(X.T @ (w[:, None] * X), X.T @ (w * y))
    for algorithm in (sp.FISTA(), sp.ChambollePock()):
        path = sp.run(X, y, Expectile(q), sp.NoPenalty(), algorithm, n_iter=3000)
        np.testing.assert_allclose(path.coef[-1], b, atol=1e-6)


@pytest.mark.parametrize(("loss", "algorithm"), ALGORITHMS, ids=str)
def test_algorithms_converge_to_the_minimum(loss, algorithm):
    X, y, _ = draw(80, 12)
    found = sp.run(X, y, loss, sp.Ridge(0.5), algorithm, n_iter=4000).objective
    expected = sp.run(X, y, loss, sp.Ridge(0.5), n_iter=4000).objective
    assert found[-1] == pytest.approx(expected[-1], rel=1e-6)


@pytest.mark.parametrize(("loss", "algorithm"), ALGORITHMS, ids=str)
def test_corrections_of_algorithms_are_finite_differences(loss, algorithm):
    """Compare W with its definition: traces of responses of iterates to impulses in gradients."""
    n, p, N, h = 30, 5, 4, 1e-6
    X, y, model = draw(n, p)
    path = sp.run(X, y, loss, sp.Ridge(0.5), algorithm, n_iter=N)
    W, _, _ = sp.correction_matrices(path, covariance=model.covariance)

    def iterates(impulse, at):
        u, v, b, eta = [np.zeros(n)], [y / math.sqrt(n)], [np.zeros(p)], [np.zeros(p)]
        for t in range(1, N + 1):
            u.append(path.maps.dual(t, u, v))
            eta.append((X.T @ u[-1] + impulse * (t == at)) / math.sqrt(n))
            b.append(path.maps.primal(t, b, eta))
            v.append((y - X @ b[-1]) / math.sqrt(n))
        return np.array(b)

    for s in range(1, N + 1):
        moved = [(iterates(h * e, s) - iterates(-h * e, s)) / (2 * h) for e in np.eye(p)]
        expected = np.einsum("jtk,jk->t", np.array(moved), model.covariance)
        np.testing.assert_allclose(W[:, s - 1], expected, atol=1e-7)


def test_unsafe_steps_of_the_guides_algorithm_warn():
    X, y, _ = draw(40, 10)
    step = 40 / np.linalg.norm(X, 2) ** 2
    sp.run(X, y, sp.Huber(), sp.Lasso(0.1), HeavyBall(0.59 * step), n_iter=2)
    with pytest.warns(UserWarning, match=r"the limit 0\.6: HeavyBall may diverge"):
        sp.run(X, y, sp.Huber(), sp.Lasso(0.1), HeavyBall(0.61 * step), n_iter=2)


@pytest.mark.parametrize(
    "extension",
    [
        *PENALTIES,
        Expectile(0.8),
        *(make(6) for make in PENALTY_EXAMPLES.values()),
        *LOSS_EXAMPLES.values(),
    ],
    ids=repr,
)
def test_losses_and_penalties_do_not_modify_their_arguments(extension):
    x = np.random.default_rng(0).standard_normal(6)
    labels = np.sign(x)
    x.flags.writeable = labels.flags.writeable = False  # a method that writes to them fails
    if isinstance(extension, Loss):
        extension.location(labels)
        assert extension.gradient(x) is not x
        extension.hessian(x)
    else:
        extension.null_lam(x)
        extension.prox(x, 0.3)
        extension.jacobian(x, 0.3)(x)
    assert not np.any(np.isnan(extension.value(x)))


# ----- Pages -----


def test_the_reference_has_every_public_name():
    listed = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text("utf-8"), re.MULTILINE))
    modules = {"distributed", "simulate"}
    assert set(sp.__all__) - modules <= listed
    assert set(sp.distributed.__all__) <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_to_files(page):
    text = re.sub(r"(?ms)^```\w+$.*?^```$", "", page.read_text("utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)  # code may look like a link
    built = {DOCS / "gallery"}  # by sphinx-gallery
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text)
    for link in links:
        target = (page.parent / link).resolve()
        if not built & {target, *target.parents}:
            assert target.exists(), link
    if page.name == "README.md":
        assert len(links) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_lead_to_headings(page):
    for link, anchor in re.findall(r"\]\(([^)#:\s]*\.md)?#([^)\s]+)\)", page.read_text("utf-8")):
        text = (page.parent / link).read_text("utf-8") if link else page.read_text("utf-8")
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
        assert anchor in slugs, (link, anchor)


def test_every_page_is_in_one_table_of_contents():
    text = (DOCS / "index.md").read_text("utf-8")
    trees = re.findall(r"```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)```", text, re.DOTALL)
    listed = [name for tree in trees for name in tree.split()]
    ours = [page.relative_to(DOCS) for page in PAGES if DOCS in page.parents]
    pages = {page.with_suffix("").as_posix() for page in ours}
    assert sorted(listed) == sorted(pages - {"index"} | {"gallery/index"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_identifiers_are_linked_to_their_own_addresses(page):
    text = page.read_text("utf-8")
    for kind, site in (("doi", "https://doi.org"), ("arXiv", "https://arxiv.org/abs")):
        for identifier, target in re.findall(rf"\[{kind}:([^\]\s]+)\]\(([^)\s]+)\)", text):
            assert target == f"{site}/{identifier}"


SHOWN = r"```\{literalinclude\} (\S+)\n.*?:(pyobject|start-at): (.*?)\n.*?```"


def source(path, name):
    """Return the lines of an object with its decorators, or a snippet without its docstring."""
    text = (ROOT / path).read_text("utf-8")
    node, lines = ast.parse(text), text.splitlines(keepends=True)
    if not name:
        return "".join(lines[node.body[1].lineno - 1 :])
    for part in name.split("."):
        node = next(each for each in node.body if getattr(each, "name", None) == part)
    first = min([node, *node.decorator_list], key=lambda each: each.lineno)
    return textwrap.dedent("".join(lines[first.lineno - 1 : node.end_lineno]))


@pytest.mark.parametrize(
    ("page", "count"), [("add_penalty", 4), ("add_algorithm", 5), ("add_loss", 3)]
)
def test_code_that_the_guides_include_is_there(page, count):
    text = (DOCS / f"{page}.md").read_text("utf-8")
    shown = re.findall(SHOWN, text, re.DOTALL)
    assert len(shown) == text.count("{literalinclude}") == count
    for path, option, value in shown:
        code = source(f"docs/{path}", value if option == "pyobject" else None)
        assert option == "pyobject" or code.startswith(value), path


def test_every_check_is_explained():
    files = {inspect.getfile(check) for check in diagnostics.CHECKS}
    code = "".join(Path(file).read_text("utf-8") for file in files)
    names = re.findall(r'return Diagnostic\(\s*"([A-Za-z -]+)"', code)
    assert len(names) == len(diagnostics.CHECKS)
    text = (DOCS / "trust.md").read_text("utf-8")
    for name in names:
        assert f"- **{name}**: " in text, name
        assert re.search(rf"^\| {name} (\* )?\|", text, re.MULTILINE), name


def blocks_of(page):
    """Return the code blocks of a guide that are run: not those included from elsewhere."""
    text = re.sub(SHOWN, "", (DOCS / f"{page}.md").read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def names_of_guides():
    """Return the names that the code of the guides uses."""
    X, y, _ = draw(100, 10)
    return {
        "sp": sp,
        "np": np,
        "partial": functools.partial,
        "X": X,
        "y": y,
        "path": sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=20),
        **{kind.__name__: kind for kind in (BoundedLasso, PositiveLasso, HeavyBall, Expectile)},
    }


@pytest.mark.parametrize(
    ("page", "count"), [("choosing", 3), ("add_penalty", 3), ("add_algorithm", 3), ("add_loss", 3)]
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of small data
def test_code_of_the_guides_runs(page, count):
    names, blocks = names_of_guides(), blocks_of(page)
    assert len(blocks) == count
    for code in blocks:
        exec(code, names)
    if page == "choosing":
        assert names["model"].coef_.shape == (10,)
        assert np.ptp(names["w"]) > 0


@dataclass(frozen=True, eq=False)
class Shifted(PositiveLasso):
    def prox(self, b, step):
        return np.maximum(b - 1.1 * step * self.lam, 0)


@dataclass(frozen=True)
class SignedPrimal(HeavyBall):
    def primal(self, prox, t, b, eta):
        return prox(b[-1] - self.step * np.sign(eta[-1]))


@dataclass(frozen=True)
class Symmetric(Expectile):
    def slope(self, r, s):
        return np.ones_like(r) / (1 + s)


@pytest.mark.parametrize(
    ("page", "name", "wrong"),
    [
        ("add_penalty", "PositiveLasso", Shifted),
        ("add_loss", "Expectile", Symmetric),
        ("add_algorithm", "HeavyBall", SignedPrimal),
    ],
)
def test_checks_of_the_guides_find_mistakes(page, name, wrong):
    (check,) = (code for code in blocks_of(page) if "1e-6\n" in code)
    exec(check, names_of_guides())
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        exec(check, {**names_of_guides(), name: wrong})
