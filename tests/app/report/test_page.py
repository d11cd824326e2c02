"""The page of a report, as text: what is in it, and what can never be."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from types import SimpleNamespace

import pytest

import samples
from steinpath._support.colours import BLUE, ORANGE, SKY
from steinpath.app.encoding import ColumnSummary
from steinpath.app.fitting import Ranked
from steinpath.app.report.content import Coefficient
from steinpath.app.report.page import (
    Markup,
    data_block,
    figure,
    markup,
    plus_minus,
    render,
    short,
    tag,
    verbatim,
)
from steinpath.risk._diagnostics import Diagnostic

EVIL = "<script>alert(1)</script>"
WORSE = "\"'><img onerror=alert(1)>&amp;</script><!--\u2028\u2029]]>"
SECTIONS = ("risk", "paths", "residuals", "model", "trust", "columns", "again")
NAMESPACE = "http://www.w3.org/2000/svg"


class Reader(HTMLParser):
    """Reads a page, and insists that every element ends where it should."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.tags, self.attributes = [], [], [], []
        self.texts, self.policy = {}, None
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        assert len(named) == len(attrs)
        self.tags.append(tag)
        self.attributes += attrs
        if "id" in named:
            self.ids.append(named["id"])
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"]
        if tag != "meta":
            self.open.append((tag, named.get("data-field") or named.get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            self.texts[name] = self.texts.get(name, "") + data


def evil():
    """A content whose every text is hostile."""
    charts = replace(
        samples.charts(n_names=2), coefficient_names=(EVIL, WORSE), test_loss=EVIL, penalty=WORSE
    )
    return samples.tiny(
        title=EVIL,
        verdict=WORSE,
        facts=((EVIL, WORSE),),
        warnings=(EVIL, WORSE),
        assumptions=(EVIL,),
        checks=(Diagnostic(EVIL, 2.0, 1.0, WORSE),),
        columns=(ColumnSummary(EVIL, WORSE, EVIL, 0, 1),),
        notes=(WORSE,),
        coefficients=(Coefficient(EVIL, 1.0, 1.0), Coefficient(WORSE, 1.0, -1.0)),
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


def test_builder_escapes_text_and_attributes():
    assert tag("p", EVIL).html == "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"
    assert '"' not in tag("p", title="\"'<&").html.removeprefix('<p title="').removesuffix('"></p>')
    assert tag("p", class_="a", aria_label="b", hidden=True, id=None).html == (
        '<p class="a" aria-label="b" hidden></p>'
    )


def test_builder_nests_markup_and_nothing_else():
    assert tag("p", tag("b", "a"), None, ["<", Markup("<i></i>")]).html == (
        "<p><b>a</b>&lt;<i></i></p>"
    )
    # markup that passed through a string is text
    assert "<b>" not in markup(f"{tag('b')}")


def test_verbatim_refuses_what_would_end_it():
    for text in ("a</script>", "a<!--b"):
        with pytest.raises(ValueError, match="must not have"):
            verbatim("script", text)


def test_data_block_is_json_and_harmless():
    charts = replace(
        samples.charts(n_names=1),
        coefficient_names=(WORSE,),
        stderr=((math.nan, math.inf, 1.0),),
        risk=((1 / 3, 123456.0, -math.inf),),
        train=((1 / 3, 2e-7, 0.0),),
        chosen=(0, 2),
    )
    text = data_block(charts)
    assert not set(text) & set("<>&\u2028\u2029")
    found = json.loads(text)
    assert found["names"] == [WORSE]
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


def test_differences_have_the_digits_of_what_they_are_of():
    assert plus_minus(55.0, 33.0, 23911.0) == "55 ± 33"
    assert plus_minus(0.5, 0.004, 44.4) == "0.5000 ± 0.0040"


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


def test_page_asks_nothing_of_a_network(case):
    _, page, reader = case
    assert page.count(NAMESPACE) == 1
    assert not re.search(r"https?:|\bsrc=|url\(|@import|//[a-z]", page.replace(NAMESPACE, ""))
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
    assert ("intervals" in reader.ids) == (content.intervals is not None)
    assert ("left-out" in reader.ids) == bool(content.charts.actual)
    assert ("surface-plot" in reader.ids) == (len(content.charts.alphas) > 1)
    assert content.command == reader.texts["command"]


def test_the_choice_is_said_without_a_script(case):
    content, _, reader = case
    charts = content.charts
    row, at = charts.chosen
    assert reader.texts["risk"]
    assert reader.texts["iterate"] == f"{charts.iterates[at]:,}"
    panel = reader.texts["panel"]
    assert plus_minus(charts.risk[row][at], charts.stderr[row][at]) in panel
    assert figure(charts.train[row][at]) in panel
    assert all(text in reader.texts[None] + panel for _, text in content.facts)


def test_warnings_come_first_or_are_said_to_be_none():
    page = render(CONTENTS["crowded"])
    places = [page.index(f'id="{name}"') for name in ("warnings", "ranking", "risk", "paths")]
    assert places == sorted(places)
    reader = Reader(page)
    assert all(text in reader.texts["warnings"] for text in CONTENTS["crowded"].warnings)
    assert Reader(render(samples.tiny())).texts["warnings"] == "No check gave a warning."


def test_hostile_text_is_shown_as_it_is():
    reader = Reader(render(evil()))
    assert reader.tags.count("script") == 2
    assert "img" not in reader.tags
    assert reader.texts["command"] == EVIL
    for name in ("model", "trust", "columns", "ranking", "panel", "warnings"):
        assert EVIL in reader.texts[name]
        assert WORSE in reader.texts[name]


def test_checks_that_warn_say_what_to_do():
    checks = (Diagnostic("a", 1.0, 2.0, "quiet words"), Diagnostic("b", 3.0, 2.0, "loud words"))
    text = Reader(render(samples.tiny(checks=checks))).texts["trust"]
    assert "loud words" in text
    assert "quiet words" not in text
    assert text.count("▲ warns") == text.count("✓ ok") == 1


def test_checks_say_what_they_mean_where_they_do():
    rest = {"value": 1.0, "threshold": 2.0, "message": "loud words"}
    checks = (
        SimpleNamespace(name="a", meaning="plain <words>", warns=False, **rest),
        SimpleNamespace(name="b", meaning="other words", warns=True, **rest),
        SimpleNamespace(name="c", meaning="", warns=False, **rest),
    )
    page = render(samples.tiny(checks=checks))
    text = Reader(page).texts["trust"]
    assert "aplain <words>" in text
    assert "bother wordsloud words" in text
    assert text.count("loud words") == 1
    assert page.count('class="meaning"') == 2


@pytest.mark.parametrize(
    ("factor", "larger"), [(1.2, True), (1.06, True), (1.04, False), (0.9, False)]
)
def test_residuals_are_said_to_be_larger_where_they_are(factor, larger):
    raw = (1.0, -2.0, 3.0, math.nan, 50.0)
    corrected = (*(factor * r for r in raw[:3]), 1.0, math.inf)
    charts = replace(samples.charts(), raw=raw, corrected=corrected)
    text = Reader(render(samples.tiny(charts=charts))).texts["residuals"]
    assert ("so they are larger: the dots lie steeper than the diagonal" in text) == larger
    assert ("here they are hardly larger: the model is simple for so many rows" in text) != larger


def test_rows_left_out_are_said_to_be_what_they_are():
    charts = replace(samples.charts(), left_out_by="fitted, and chosen,")
    text = Reader(render(samples.tiny(charts=charts))).texts["left-out"]
    assert "by a model that was fitted, and chosen, without it" in text
    text = Reader(render(samples.tiny())).texts["left-out"]
    assert "by a model that was fitted without it" in text
    for part in ("Predicted against actual", "Left-out residuals", "median", "central 50%"):
        assert part in text


def test_the_curve_at_the_choice_is_explained():
    text = Reader(render(samples.tiny())).texts["risk"]
    assert "another iterate. With the choice counted, it is larger." in text
    quiet = replace(samples.charts(), at_the_choice="")
    assert "another iterate.estimated" in Reader(render(samples.tiny(charts=quiet))).texts["risk"]


def test_the_numbers_of_rows_left_out_are_in_the_page():
    charts = replace(samples.charts(), actual=(1 / 3, math.nan), predicted=(2.0, 1e9),
                     quantiles=(-1.0, 0.0, 1 / 3, 2.0, math.inf), left_out_rows=2)  # fmt: skip
    found = json.loads(data_block(charts))
    assert found["actual"] == [0.33333, None]
    assert found["predicted"] == [2.0, 1e9]
    assert found["quantiles"] == [-1.0, 0.0, 0.33333, 2.0, None]
    assert found["leftOutRows"] == 2


def test_levels_are_explained_where_there_are_some():
    words = "Every level of a category has a coefficient of its own"
    assert words not in Reader(render(samples.tiny())).texts["model"]
    levels = (Coefficient("rooms", 1.0, 2.0), Coefficient("year=1990", 1.0, 1.0))
    assert words in Reader(render(samples.tiny(coefficients=levels))).texts["model"]


def test_alphas_are_said_to_be_estimated_unequally():
    words = "estimated more precisely than at the rest"
    assert words in Reader(render(samples.tiny())).texts["risk"]
    assert words not in Reader(render(CONTENTS["single"])).texts["risk"]


def test_long_tables_are_folded():
    many = tuple(Coefficient(f"c{j}", 1.0, 1.0) for j in range(16))
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


def test_ranking_survives_what_is_not_finite():
    bad = Ranked("lad", "lasso", 0.1, 1, 1, math.inf, math.nan, math.inf, math.nan)
    good = Ranked("huber", "lasso", 0.1, 1, 1, 1.0, 0.1, 0.0, 0.0)
    page = render(samples.tiny(ranking=(good, bad)))
    assert not re.search(
        r'"[^"]*\b(nan|inf)\b[^"]*"', page.split('id="ranking"')[1].split("</sec")[0]
    )


def test_halves_of_characters_are_replaced():
    render(samples.tiny(title="a\udc80b", command="\ud800")).encode("utf-8")


def test_same_content_makes_the_same_page():
    assert render(samples.tiny()) == render(samples.tiny())


def test_colours_are_those_of_the_plots():
    page = render(samples.tiny())
    own = (resources.files("steinpath.app.report") / "style.css").read_text("utf-8")
    for name, colour in (("blue", BLUE), ("orange", ORANGE), ("sky", SKY)):
        assert f"--{name}: {colour};" in page
        assert f"var(--{name})" in own
        assert colour.lower() not in own.lower()
