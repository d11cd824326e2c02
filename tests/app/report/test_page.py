"""The HTML page of a report: its content, escaping, accessibility and policy."""

import json
import math
import re
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest

import samples
from samples import replace
from steinpath._support.charts import BLUE, ORANGE, SKY
from steinpath.app.fitted import Ranked
from steinpath.app.report import build
from steinpath.app.report.build import Scale, figure, plus_minus, render, short
from steinpath.estimators._columns import ColumnSummary
from steinpath.risk._evidence import Diagnostic

EVIL = "<script>alert(1)</script>"
WORSE = "\"'><img onerror=alert(1)>&amp;</script><!--\u2028\u2029]]>"
SECTIONS = ("risk", "residuals", "model", "trust", "reproduce")
ORDER = (
    "warnings", "figures", "classes", "terms", "ranking", "importance", "model",
    "intervals", "predictions", "residuals", "prediction-intervals", "risk", "surface-plot",
    "paths-plot", "trust", "columns", "reproduce",
)  # fmt: skip
NAMESPACE = "http://www.w3.org/2000/svg"


class Reader(HTMLParser):
    """Reads a page, and requires that every element is closed."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.tags, self.attributes = [], [], [], []
        self.texts, self.policy, self.elements = {}, None, []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        assert len(named) == len(attrs)
        self.tags.append(tag)
        self.attributes += attrs
        self.elements.append((tag, named, [name for name, _ in self.open]))
        if "id" in named:
            self.ids.append(named["id"])
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"]
        if tag not in ("meta", "wbr"):
            self.open.append((tag, named.get("data-field") or named.get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            self.texts[name] = self.texts.get(name, "") + data.replace("\n", " ")


def evil():
    """A content whose every text is hostile."""
    charts = replace(
        samples.charts(n_names=2), coefficient_names=(EVIL, WORSE), test_loss=EVIL, penalty=WORSE
    )
    return samples.tiny(
        title=EVIL,
        verdict=WORSE,
        model=EVIL,
        facts=((EVIL, WORSE),),
        warnings=(EVIL, WORSE),
        assumptions=(EVIL,),
        checks=(Diagnostic(EVIL, 2.0, 1.0, WORSE),),
        columns=(ColumnSummary(EVIL, WORSE, EVIL, 0, 1),),
        notes=(WORSE,),
        coefficients=((EVIL, 1.0, 1.0), (WORSE, 1.0, -1.0)),
        ranked_by=EVIL,
        ranking=(Ranked(EVIL, WORSE, 1.0, 1, 1, 1.0, 0.1, 0.0, 0.0),),
        charts=charts,
        intervals=samples.intervals((EVIL, WORSE, EVIL), warnings=(EVIL,), notes=(WORSE,)),
        command=EVIL,
        provenance=((EVIL, WORSE),),
    )


def contents():
    nan = math.nan
    curves = samples.charts()
    zeros = replace(curves, coefficients=samples.rows([[0.0] * 5] * 41))
    nameless = replace(curves, coefficient_names=(), coefficients=((),) * 41, raw=(), corrected=(),
                       actual=(), predicted=(), quantiles=(), left_out_rows=0)  # fmt: skip
    unsure = replace(curves, stderr=samples.rows([[nan] * 41] * 3))
    return {
        "tiny": samples.tiny(),
        "crowded": samples.crowded(),
        "evil": evil(),
        "terms": samples.with_terms(),
        "evil terms": samples.with_terms(WORSE),
        "single": samples.tiny(charts=samples.charts(n_alphas=1)),
        "one iterate": samples.tiny(charts=samples.charts(n_iterates=1)),
        "long": samples.tiny(charts=samples.charts(n_iterates=3000)),
        "zeros": samples.tiny(charts=zeros),
        "nameless": samples.tiny(charts=nameless),
        "unsure": samples.tiny(charts=unsure),
        "one interval": samples.tiny(intervals=samples.intervals(("a", "b"))),
        "no interval": samples.tiny(intervals=samples.intervals(("a",))),
        "bare": samples.tiny(facts=(), assumptions=(), checks=(), columns=(), notes=(),
                             coefficients=(), provenance=()),
    }  # fmt: skip


CONTENTS = contents()


@pytest.fixture(scope="module", params=CONTENTS)
def case(request):
    """A content, its page, and the page as a browser would read it."""
    content = CONTENTS[request.param]
    page = render(content)
    return content, page, Reader(page)


def chart_data(content):
    """The numbers of the charts as they stand in the page, and their JSON."""
    text = render(content).split('id="data">')[1].split("</script>")[0]
    return json.loads(text), text


def test_a_script_cannot_end_early():
    for file in ("style.css", *build._SCRIPTS):
        text = (resources.files("steinpath.app.report") / file).read_text("utf-8")
        assert "</" not in text
        assert "<!--" not in text


def test_chart_data_are_json_and_harmless():
    charts = replace(
        samples.charts(n_names=1),
        coefficient_names=(WORSE,),
        coefficients=((0.0,), (1.0,), (2.0,)),
        stderr=((math.nan, math.inf, 1.0),),
        risk=((1 / 3, 123456.0, -math.inf),),
        train=((1 / 3, 2e-7, 0.0),),
        chosen=(0, 2),
    )
    found, text = chart_data(samples.tiny(charts=charts, coefficients=()))
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert found["coefficient_names"] == [WORSE]
    assert found["stderr"] == [[None, None, 1.0]]
    assert found["risk"] == [[0.33333, 123460.0, None]]


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (44.391, 1.602, "44.39 ± 1.60"),
        (0.43271, 0.0131, "0.4327 ± 0.0131"),
        (12345.6, 432.1, "12,346 ± 432"),
        (43.27, 0.0021, "43.2700 ± 0.0021"),
        (-1.5, 0.25, "−1.500 ± 0.250"),
        (1.5, math.nan, "1.500"),
        (0.0, 0.0, "0 ± 0"),
        (1.25e9, 3e7, "1.250e9 ± 3.000e7"),
        (math.inf, 1.0, "–"),
        (math.nan, math.nan, "–"),
    ],
)
def test_numbers_have_the_digits_that_their_errors_ask_for(value, stderr, text):
    assert plus_minus(value, stderr) == text


def test_figures_of_any_size():
    assert [figure(v) for v in (0.0, 1e-9, -2e-5, 1234567.0)] == [
        "0", "1.000e−9", "−2.000e−5", "1,234,567"]  # fmt: skip
    assert [short(v) for v in (0.1, 1 / 30, math.nan)] == ["0.1", "0.0333", "–"]


def test_page_is_well_formed(case):
    _, page, reader = case
    assert page.startswith("<!DOCTYPE html>\n")
    assert len(reader.ids) == len(set(reader.ids))
    assert {"html", "head", "title", "main", "h1"} <= set(reader.tags)
    assert reader.tags.count("script") == 2
    page.encode("utf-8")


def test_page_loads_nothing(case):
    _, page, reader = case
    assert page.count(NAMESPACE) == 1
    text = re.sub(r"'sha256-[^']*'", "", page.replace(NAMESPACE, ""))  # a hash may contain //
    assert not re.search(r"https?:|\bsrc=|url\(|@import|//[a-z]", text)
    assert not {"link", "img", "iframe", "base", "form"} & set(reader.tags)
    assert not any(
        name.startswith("on") or name in ("href", "style") for name, _ in reader.attributes
    )
    assert reader.policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in reader.policy


def test_every_section_is_there(case):
    content, _, reader = case
    for name in SECTIONS:
        assert name in reader.ids
        assert f"{name}-title" in reader.ids
    assert ("ranking" in reader.ids) == bool(content.ranking)
    assert ("terms" in reader.ids) == bool(content.levels)
    assert ("importance" in reader.ids) == bool(content.importance)
    assert ("curves-plot" in reader.ids) == bool(content.charts.curves)
    assert ("surfaces-plot" in reader.ids) == bool(content.charts.surfaces)
    assert ("columns" in reader.ids) == bool(content.columns or content.notes)
    assert ("intervals" in reader.ids) == (content.intervals is not None)
    assert ("predictions" in reader.ids) == bool(content.charts.actual)
    assert ("paths-plot" in reader.ids) == bool(content.charts.coefficient_names)
    assert ("prediction-intervals" in reader.ids) == (content.widths is not None)
    order = [name for name in reader.ids if name in ORDER]
    assert order == sorted(order, key=ORDER.index)
    assert ("surface-plot" in reader.ids) == (len(content.charts.alphas) > 1)
    assert content.command == reader.texts["command"]


def test_the_selected_iteration_is_shown_without_a_script(case):
    content, _, reader = case
    charts = content.charts
    row, at = charts.chosen
    assert reader.texts["risk"]
    assert reader.texts["iterate"] == f"{charts.iterates[at]:,}"
    panel = reader.texts["panel"]
    assert plus_minus(charts.risk[row][at], charts.stderr[row][at]) in panel
    assert figure(charts.train[row][at]) in panel
    assert all(text in reader.texts[None] + panel for _, text in content.facts)


def test_terms_are_compared_and_logarithms_are_said_to_be_ones():
    page = Reader(render(samples.with_terms()))
    terms = " ".join(page.texts["terms"].split())
    assert "linear2.00 ± 0.10+0.50 ± 0.20" in terms
    assert "curves and products, log target selected1.50 ± 0.10smallest1,234" in terms
    assert "The logarithm of the prediction is 1.250 plus" in page.texts["model"]
    for name in ("residuals", "risk"):
        assert "logarithm of the target" in " ".join(page.texts[name].split())
    plain = Reader(render(samples.tiny()))
    assert not any("logarithm" in text for text in plain.texts.values())


def test_warnings_come_first():
    page = render(CONTENTS["crowded"])
    assert page.index('id="warnings"') < page.index('<dl class="facts">')
    reader = Reader(page)
    assert all(text in reader.texts["warnings"] for text in CONTENTS["crowded"].warnings)
    assert Reader(render(samples.tiny())).texts["warnings"] == "No warnings: every check passed."


def test_checks_say_what_they_mean_where_they_do():
    checks = (
        Diagnostic("few rows", 1 / 400, 1 / 30, "", unit="1/rows"),
        Diagnostic("share", 0.014, 0.2, "", unit="%"),
        Diagnostic("a", 1.0, 2.0, "loud words", "plain <words>"),
        Diagnostic("b", 3.0, 2.0, "loud words", "other words"),
        Diagnostic("c", 1.0, 2.0, "loud words"),
    )
    page = render(samples.tiny(checks=checks))
    text = Reader(page).texts["trust"]
    assert "few rows400 rowsat least 30" in text
    assert "share1%at most 20%" in text
    assert "aplain <words>" in text
    assert "bother wordsloud words" in text
    assert text.count("loud words") == 1
    assert page.count('class="meaning"') == 2


def test_names_are_broken_between_their_parts_if_at_all():
    name = "registered_users=last-year (m²)"
    page = render(samples.tiny(coefficients=[(name, 1.0, 2.0)]))
    assert "registered_<wbr>users=<wbr>last-<wbr>year (m²)</th>" in page
    assert name in Reader(page).texts["model"]


@pytest.mark.parametrize(
    ("factor", "larger"), [(1.2, True), (1.06, True), (1.04, False), (0.9, False)]
)
def test_residuals_are_reported_as_larger_only_if_they_are(factor, larger):
    raw = (1.0, -2.0, 3.0, math.nan, 50.0)
    corrected = (*(factor * r for r in raw[:3]), 1.0, math.inf)
    charts = replace(samples.charts(), raw=raw, corrected=corrected)
    text = Reader(render(samples.tiny(charts=charts))).texts["residuals"]
    assert ("are larger: the points are steeper than the diagonal" in text) == larger
    assert ("are hardly larger: the model overfits little" in text) != larger


def test_out_of_fold_predictions_are_described():
    charts = replace(samples.charts(), left_out_by="fitted and selected")
    text = Reader(render(samples.tiny(charts=charts))).texts["predictions"]
    assert "by a model that was fitted and selected without it" in text
    text = Reader(render(samples.tiny())).texts["predictions"]
    assert "by a model that was fitted without it" in text
    for part in ("Predicted against actual", "Out-of-fold residuals", "median", "central 50%"):
        assert part in text


def test_levels_are_explained_if_there_are_any():
    words = "Each level of a category has its own coefficient, as fitted"
    assert words not in Reader(render(samples.tiny())).texts["risk"]
    texts = Reader(render(samples.tiny(caption="Coefficients of <b> are"))).texts
    assert words in texts["risk"]
    assert "Coefficients of <b> are." in texts["model"]


def test_long_tables_are_folded():
    many = tuple((f"c{j}", 1.0, 1.0) for j in range(16))
    assert render(samples.tiny(coefficients=many)).count("<details>") == 1
    assert render(samples.tiny(coefficients=many[:15])).count("<details>") == 0
    text = Reader(render(samples.crowded())).texts["columns"]
    assert "Show 90 more" in text
    assert all(column.name in text for column in samples.crowded().columns)


def test_forty_intervals_are_drawn_with_an_axis():
    content = samples.tiny(intervals=samples.intervals([f"x{j}" for j in range(60)]))
    page = render(content)
    section = page[page.index('<section id="intervals"') :]
    section = section[: section.index("</section>")]
    assert section.count("<circle") == 40
    assert "Show 20 more" in section
    assert section.count("not identified") == 1
    ticks = re.findall(r'<text x="[\d.]+%" y="20" class="middle">(.*?)</text>', section)
    assert "0" in ticks
    assert 3 <= len(ticks) <= 6


def test_model_of_zeros_is_its_intercept():
    text = Reader(render(samples.tiny(coefficients=(), intercept=1.25))).texts["model"]
    assert "the prediction is 1.250 for every row" in text


def test_ranking_may_have_infinite_risks():
    bad = Ranked("lad", "lasso", 0.1, 1, 1, math.inf, math.nan, math.inf, math.nan)
    good = Ranked("huber", "lasso", 0.1, 1, 1, 1.0, 0.1, 0.0, 0.0)
    page = render(samples.tiny(ranking=(good, bad)))
    assert not re.search(
        r'"[^"]*\b(nan|inf)\b[^"]*"', page.split('id="ranking"')[1].split("</sec")[0]
    )


def test_lone_surrogates_are_replaced():
    render(samples.tiny(title="a\udc80b", command="\ud800")).encode("utf-8")


def test_colours_are_those_of_the_plots():
    page = render(samples.tiny())
    own = (resources.files("steinpath.app.report") / "style.css").read_text("utf-8")
    for name, colour in (("blue", BLUE), ("orange", ORANGE), ("sky", SKY)):
        assert f"--{name}: {colour};" in page
        assert f"var(--{name})" in own
        assert colour.lower() not in own.lower()


def test_headings_are_in_order(case):
    reader = case[2]
    levels = [int(tag[1]) for tag in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(next - one <= 1 for one, next in pairwise(levels))


def test_language_title_and_landmarks_are_there(case):
    content, _, reader = case
    assert ("html", {"lang": "en"}) in [element[:2] for element in reader.elements]
    assert reader.tags.count("title") == reader.tags.count("main") == 1
    assert [inside for tag, _, inside in reader.elements if tag == "header"] == [["html", "body"]]
    assert content.title in reader.texts[None]
    for tag, named, inside in reader.elements:
        if tag == "section":
            assert named["aria-labelledby"] in reader.ids
            assert "main" in inside


def test_drawings_and_tables_are_labelled(case):
    reader = case[2]
    for tag, named, inside in reader.elements:
        if tag == "svg":  # the numbers are beside it; charts are labelled by the script
            assert named["aria-hidden"] == "true"
        if tag == "th":
            assert named["scope"] == ("col" if "thead" in inside else "row")
        if named.get("tabindex") == "0":
            assert named["role"] == "group"
            assert named["aria-label"]
        if tag == "button":
            assert named["type"] == "button"
    assert reader.tags.count("table") == reader.tags.count("thead")


def test_titles_of_columns_are_not_empty(case):
    assert not re.search(r"<th[^>]*></th>", case[1].replace('scope="row"></th>', ""))


def luminance(colour):
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_have_enough_contrast(theme):
    style = render(samples.tiny()).split("<style>")[1].split("@media print")[0]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{3,6}|light-dark\(.*?\)+);", style))

    def colour(name):
        value = colours[name]
        if value.startswith("light-dark"):
            value = re.split(r", ", value.removeprefix("light-dark(")[:-1])[theme]
        return colour(value[6:-1]) if value.startswith("var(") else value

    texts = [("ink", "paper"), ("ink", "card"), ("warn-ink", "warn-paper")]
    texts += [(name, "paper") for name in ("soft", "good", "bad", "estimate")]
    texts += [(name, "card") for name in ("soft", "bad")]
    texts += [(f"hue{k}", "paper") for k in range(5)]
    for text, paper in texts:
        assert contrast(colour(text), colour(paper)) >= 4.5, (text, paper)
    for line in ("train", "choice", "edge"):
        assert contrast(colour(line), colour("paper")) >= 3, line


def test_hints_for_the_mouse_are_not_printed():
    page = render(samples.tiny())
    hidden = re.search(r"\n  (.*?) \{ display: none; \}", page.split("@media print")[1]).group(1)
    assert {"button", "summary", ".screen"} <= set(hidden.split(", "))
    for hint in ("Hover over the curve", "Click a row"):
        assert f'<span class="screen">{hint}' in page


def test_prediction_intervals_have_a_command_and_widths():
    text = Reader(render(samples.tiny(widths=((0.5, 1.0), (0.9, 12.345))))).texts
    section = text["prediction-intervals"]
    assert "steinpath predict model.json new.csv --interval 0.9" in section
    assert "90%" in section
    assert "12.35" in section  # four digits
    assert "Average" not in Reader(render(samples.tiny(widths=()))).texts["prediction-intervals"]
    code = "model.predict_interval(X_new)"
    text = Reader(render(samples.tiny(widths=(), predict=code))).texts["prediction-intervals"]
    assert code in text
    assert "steinpath predict" not in text


def test_scales_have_round_ticks_and_keep_numbers_inside():
    assert Scale(-1.0, 3.0).ticks() == [-1.0, 0.0, 1.0, 2.0, 3.0]
    assert Scale(0.0, 0.0).ticks() == [0.0]
    scale = Scale(-1.0, 1.0)
    assert (scale(-1), scale(0), scale(1)) == ("3.00%", "50.00%", "97.00%")
    assert {scale(math.nan), scale(math.inf), scale(-2.0)} == {"50.00%"}
