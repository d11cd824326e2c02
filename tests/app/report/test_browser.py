"""The page of a report in a real browser."""

import base64
import json
import math
from itertools import pairwise

import numpy as np
import pytest

import samples
from browser import Browser, find_browser
from samples import replace
from steinpath.app.report.build import figure, plus_minus, render

pytestmark = pytest.mark.skipif(find_browser() is None, reason="needs Chromium on the PATH")

RISK, SURFACE, PATHS = "#risk-plot > svg", "#surface-plot > svg", "#paths-plot > svg"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
EVIL = "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture
def show(browser, tmp_path):
    """Open a content; at the end, nothing may have gone wrong."""

    def opened(content, **options):
        browser.open(render(content), tmp_path / "report.html", **options)
        return browser

    yield opened
    browser.js("0")  # what has happened by now has been told
    assert browser.complaints() == []
    assert browser.requests() == [(tmp_path / "report.html").as_uri()]


def said(page, name):
    return page.text(f'#panel [data-field="{name}"]')


def assert_panel_shows(page, charts, row, at):
    """The panel has the numbers of this alpha and iterate."""
    assert said(page, "iterate") == f"{charts.iterates[at]:,}"
    assert said(page, "risk") == plus_minus(charts.risk[row][at], charts.stderr[row][at])
    assert said(page, "train") == figure(charts.train[row][at])
    assert said(page, "nonzeros") == f"{charts.nonzeros[row][at]:,}"
    assert said(page, "alpha") == figure(charts.alphas[row])


def rounded(charts):
    """Numbers that the page has in full, so that it cannot round them twice."""
    return replace(
        charts,
        risk=samples.rows([[round(v, 3) for v in row] for row in charts.risk]),
        train=samples.rows([[round(v, 3) for v in row] for row in charts.train]),
        alphas=tuple(float(f"{v:.3g}") for v in charts.alphas),
    )


CHARTS = rounded(samples.charts())
CONTENT = samples.tiny(charts=CHARTS)


def of_classes(labels, reliable=True):
    """Charts of classes instead of residuals."""
    names = labels if len(labels) > 2 else labels[1:]
    found = {
        "titles": ["Actual class", *(f"#Predicted {label}" for label in labels), "#Correct"],
        "confusion": [[label, *["3"] * len(labels), "50%"] for label in labels],
        "models": [(name, "1", "2 of 3", "4", "0.5 ± 0.1") for name in names],
        "main": names[0],
        "roc": [
            {"name": name, "x": (0, 0.2, 1), "y": (0, 0.8, 1), "stderr": (), "area": 0.8}
            for name in names
        ],
        "reliability": [
            {"name": name, "x": (0.1, 0.9), "y": (0.2, 0.8), "stderr": (0.05, 0.1)}
            for name in names * reliable
        ],
    }
    nothing = dict.fromkeys(("raw", "corrected", "actual", "predicted", "quantiles"), ())
    return samples.tiny(charts=replace(CHARTS, classes=found, **nothing))


@pytest.mark.parametrize("labels", [("no", EVIL), tuple("abcdefg")], ids=["two", "several"])
@pytest.mark.parametrize("reliable", [True, False])
def test_classes_have_curves(labels, reliable, show):
    page = show(of_classes(labels, reliable))
    curves = len(labels) if len(labels) > 2 else 1
    count = "document.querySelectorAll('{} path.feature:not(.thin)').length"
    assert page.js(count.format("#roc-plot")) == curves
    assert page.js(count.format("#reliability-plot")) == curves * reliable
    assert page.js("document.querySelectorAll('#reliability-plot .bin').length") == (
        2 * curves * reliable
    )
    assert page.js("document.querySelector('#residuals-plot')") is None
    assert page.js("window.hurt") is None


def hover(page, selector, across, down=0.5):
    page.mouse("mouseMoved", *page.place(selector, across, down))


def test_panel_says_at_first_what_the_static_page_says(show):
    page = show(CONTENT)
    assert_panel_shows(page, CHARTS, *CHARTS.chosen)
    bars = "document.querySelectorAll('#panel ol li').length"
    assert page.js(bars) == 5
    assert page.js("document.querySelector('#back').hidden")


def test_hovering_shows_an_iterate_and_leaving_returns(show):
    page = show(CONTENT)
    row, at = CHARTS.chosen
    hover(page, RISK, 0.999)
    assert_panel_shows(page, CHARTS, row, 40)
    assert page.js("document.querySelector('#panel [data-field=chosen]').hidden")
    hover(page, RISK, 0.01)
    assert_panel_shows(page, CHARTS, row, 0)
    assert page.js("document.querySelector('#risk-plot .cross').getAttribute('d')")
    # the other chart has the same crosshair
    assert page.js("document.querySelector('#paths-plot .cross').getAttribute('d')")
    hover(page, "h1", 0.5)
    assert_panel_shows(page, CHARTS, row, at)


def test_touching_shows_an_iterate_that_stays(show):
    page = show(CONTENT, width=390)
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    x, y = page.place("#risk-plot > svg > svg", 0.9999)
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert_panel_shows(page, CHARTS, CHARTS.chosen[0], 40)
    row = 0 if CHARTS.chosen[0] else 2
    x, y = page.place("#surface-plot > svg > svg", 0.02, (row + 0.5) / 3)
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.until("document.querySelector('#alpha-note').textContent.includes('dotted')")
    assert_panel_shows(page, CHARTS, row, 0)
    page.call("Emulation.setTouchEmulationEnabled", enabled=False)


def test_arrow_keys_move_the_iterate(show):
    page = show(CONTENT)
    row, at = CHARTS.chosen
    page.js(f"document.querySelector('{RISK}').focus()")
    page.key("ArrowRight")
    assert_panel_shows(page, CHARTS, row, at + 1)
    page.key("ArrowLeft")
    page.key("ArrowLeft")
    assert_panel_shows(page, CHARTS, row, at - 1)
    text = page.js(f"document.querySelector('{RISK}').getAttribute('aria-valuetext')")
    assert text == f"Iteration {at - 1}: estimated risk {said(page, 'risk')}"
    page.key("Home")
    page.key("ArrowLeft")
    assert_panel_shows(page, CHARTS, row, 0)


def test_clicking_the_surface_switches_alpha_and_back(show):
    page = show(CONTENT)
    last = len(CHARTS.alphas) - 1
    other = last if CHARTS.chosen[0] != last else 0
    line = "document.querySelector('#risk-plot .line.estimate').getAttribute('d')"
    before = page.js(line)
    page.click(*page.place("#surface-plot > svg > svg", 0.999, (other + 0.5) / (last + 1)))
    assert_panel_shows(page, CHARTS, other, 40)
    assert page.js(line) != before
    assert "available for the selected alpha only" in said(page, "note")
    page.js(f"document.querySelector('{SURFACE}').focus()")
    step = -1 if other else 1
    page.key("ArrowUp" if other else "ArrowDown")
    assert_panel_shows(page, CHARTS, other + step, 40)
    assert page.js(f"document.activeElement === document.querySelector('{SURFACE}')")
    page.click(*page.place("#back"))
    assert_panel_shows(page, CHARTS, *CHARTS.chosen)
    assert page.js(line) == before


def test_hovering_the_surface_says_its_risk(show):
    page = show(CONTENT)
    hover(page, "#surface-plot > svg > svg", 0.999, 0.01)
    risk = plus_minus(CHARTS.risk[0][40], CHARTS.stderr[0][40])
    text = page.text("#surface-note")
    assert text == f"Alpha {figure(CHARTS.alphas[0])}, iteration 40: estimated risk {risk}"


def test_hovering_a_coefficient_names_it(show):
    page = show(CONTENT)
    point = page.js(
        "(() => { const p = document.querySelector('#paths-plot .feature');"
        "p.scrollIntoView({block: 'center'}); const q = p.getPointAtLength(p.getTotalLength());"
        "const b = p.ownerSVGElement.getScreenCTM(); return [q.x + b.e, q.y + b.f]; })()"
    )
    page.mouse("mouseMoved", *point)
    assert page.text("#paths-note").endswith("at iteration 40")
    name = page.text("#paths-plot .end.on")
    assert page.text("#paths-note").startswith(f"{name}: ")


ENDS = """[...document.querySelectorAll('#paths-plot .end')].map(end => {
    const [text, box] = [end.querySelector('text'), end.querySelector('text').getBBox()];
    const tip = end.querySelector('.leader').getPointAtLength(0).y;
    return { name: text.textContent, y: +text.getAttribute('y') - 4, tip, right: box.x + box.width,
        seen: getComputedStyle(end).opacity === '1' };
})"""


@pytest.mark.parametrize("width", [390, 700, 1280])
@pytest.mark.parametrize("name", ["fitted", "crowded"])
def test_largest_coefficients_are_named_and_names_do_not_touch(show, name, width):
    content = getattr(samples, name)()
    page = show(content, width=width)
    ends = page.js(ENDS)
    assert len(ends) == min(len(content.charts.coefficient_names), 20)
    seen = [end["seen"] for end in ends]
    assert seen == sorted(seen, reverse=True)  # none in place of a larger one
    assert sum(seen) >= min(len(ends), 18)
    assert [e["name"] for e in ends if "…" not in e["name"]] == [
        n for e, n in zip(ends, content.charts.coefficient_names, strict=False)
        if "…" not in e["name"]
    ]  # fmt: skip
    shown = sorted((e for e in ends if e["seen"]), key=lambda e: e["y"])
    for above, below in pairwise(shown):
        assert below["y"] - above["y"] > 13.9
        assert above["tip"] <= below["tip"] + 1e-3  # leaders do not cross
    right = page.js(f"+document.querySelector('{PATHS}').getAttribute('width')")
    assert all(end["right"] <= right for end in shown)


def test_names_that_have_room_are_not_moved(show):
    finals = ((0.0,) * 4, (3.0, 2.0, -1.0, -1.01))
    charts = replace(
        samples.charts(n_iterates=2, n_names=4),
        coefficients=finals,
        coefficient_names=tuple("abcd"),
    )
    a, b, c, d = show(samples.tiny(charts=charts)).js(ENDS)
    for end in (a, b):
        assert end["y"] == pytest.approx(end["tip"], abs=0.01)
    assert d["y"] - c["y"] == pytest.approx(14)
    assert c["y"] < c["tip"] < d["tip"] < d["y"]


def test_long_names_can_be_told_apart(show):
    names = tuple(f"{'How satisfied are you with it? ' * 4}={end}" for end in ("yes", "no"))
    charts = replace(samples.charts(n_names=2), coefficient_names=names)
    page = show(samples.tiny(charts=charts), width=390)
    for selector in ("#panel li span", "#paths-plot .end text"):
        found = page.js(f"[...document.querySelectorAll('{selector}')].map(e => e.textContent)")
        assert len(set(found)) == 2
        assert all("…" in text and len(text) <= 64 for text in found)
    spans = "[...document.querySelectorAll('#panel li span')]"
    assert page.js(f"{spans}.every(e => e.scrollWidth <= e.clientWidth)")


def test_axis_can_be_linear(show):
    page = show(CONTENT)
    line = "document.querySelector('#risk-plot .line.estimate').getAttribute('d')"
    before = page.js(line)
    page.click(*page.place("#axis"))
    assert page.text("#axis") == "Logarithmic axis"
    assert page.js(line) != before
    hover(page, "#risk-plot > svg > svg", 0.5)
    assert said(page, "iterate") == "20"


def awkward():
    nan = math.nan
    unsure = replace(CHARTS, stderr=samples.rows([[nan] * 41] * 3))
    holes = replace(CHARTS, risk=samples.rows([[nan if t % 3 else 1.0 for t in range(41)]] * 3))
    bare = replace(CHARTS, coefficient_names=(), coefficients=((),) * 41, raw=(), corrected=())
    nothing = replace(bare, risk=samples.rows([[nan] * 41] * 3))
    ones, zeros = samples.rows([[1.0] * 41] * 3), samples.rows([[0.0] * 5] * 41)
    flat = replace(CHARTS, risk=ones, train=ones, coefficients=zeros, raw=(0.0,), corrected=(0.0,),
                   actual=(0.0,), predicted=(0.0,), quantiles=(0.0,) * 5)  # fmt: skip
    equal = replace(CHARTS, actual=(7.0,) * 9, predicted=(5.0,) * 9, quantiles=(2.0,) * 5)
    unknown = replace(CHARTS, actual=(nan, 1.0, nan), predicted=(2.0, nan, nan),
                      quantiles=(nan,) * 5)  # fmt: skip
    far = replace(CHARTS, actual=(*CHARTS.actual[1:], 1e12))
    return {
        "unsure": samples.tiny(charts=unsure),
        "holes": samples.tiny(charts=holes),
        "nothing": samples.tiny(charts=nothing, coefficients=()),
        "flat": samples.tiny(charts=flat, coefficients=()),
        "equal": samples.tiny(charts=equal),
        "unknown": samples.tiny(charts=unknown),
        "far": samples.tiny(charts=far),
        "single": samples.tiny(charts=samples.charts(n_alphas=1)),
        "one iterate": samples.tiny(charts=samples.charts(n_iterates=1)),
        "long": samples.tiny(charts=samples.charts(n_iterates=3000)),
        "crowded": samples.crowded(),
        "terms": samples.with_terms(),
        "intervals": samples.tiny(
            intervals=samples.intervals([f"{j} long" * 9 for j in range(50)])
        ),
        "small": samples.tiny(charts=samples.charts(scale=1e-9)),
    }


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", awkward())
def test_any_content_fits_the_window_and_is_drawn(show, name, width):
    page = show(awkward()[name], width=width)
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.js("window.innerWidth") == width
    drawn = page.js("[...document.querySelectorAll('.plot')].every(p => p.querySelector('svg'))")
    assert drawn
    assert not page.js("/NaN|Infinity|undefined/.test(document.querySelector('main').innerHTML)")
    hover(page, RISK, 0.7)
    page.js(f"document.querySelector('{RISK}').focus()")
    page.key("End")


CENTRES = """[...document.querySelectorAll('#predicted-plot circle')].map(c =>
    [+c.getAttribute('cx'), +c.getAttribute('cy')])"""


def test_columns_have_curves_and_products_colours(show):
    content = samples.with_terms(EVIL)
    page = show(content)
    assert page.js("document.querySelectorAll('#curves-plot svg[role=img]').length") == 6
    assert page.js("document.querySelectorAll('#curves-plot .dot').length") == 14
    maps = "#surfaces-plot svg[role=img]"
    assert page.js(f"document.querySelectorAll('{maps}').length") == 3
    level = "#curves-plot > div > div:nth-child(6) svg"
    hover(page, level, 0.9)
    yes = content.charts.curves[5]["effect"][1]
    assert page.text("#curves-note").startswith(f"yes = yes: {'+' if yes > 0 else '−'}")
    hover(page, "#surfaces-plot > div > div:nth-child(3) svg", 0.9, 0.13)
    effect = content.charts.surfaces[2]["effect"][-1][1]
    assert figure(abs(effect)) in page.text("#surfaces-note")
    assert "yes = yes, where = " in page.text("#surfaces-note")
    assert page.js("window.hurt") is None


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_labels_of_panels_do_not_overlap(show, width):
    page = show(samples.with_terms(), width=width)
    assert page.js("""[...document.querySelectorAll('.panels svg[role=img]')].every((svg) => {
        const boxes = [...svg.querySelectorAll('text.middle')].map(t => t.getBoundingClientRect());
        return boxes.every((a, k) => boxes.slice(k + 1).every(
            (b) => a.right <= b.left || b.right <= a.left));
    })""")


def test_every_row_left_out_is_a_point(show):
    page = show(CONTENT)
    points = np.array(page.js(CENTRES))
    assert len(points) == 150
    predicted, actual = np.array(CHARTS.predicted), np.array(CHARTS.actual)
    # the axes are straight: to the right, and upwards
    inside = np.abs(actual - predicted) < 5
    across = np.polyfit(predicted[inside], points[inside, 0], 1, full=True)
    down = np.polyfit(actual[inside], points[inside, 1], 1, full=True)
    assert across[0][0] > 0 > down[0][0]
    assert max(across[1][0], down[1][0]) < 0.1  # squares of pixels, of numbers of five digits
    # and of the same range, so that the diagonal, from corner to corner, is where both are equal
    ends = page.js("document.querySelector('#predicted-plot .diagonal').getAttribute('d')")
    (left, bottom), (right, top) = (map(float, end.split()) for end in ends[1:].split("L"))
    at = (np.array([left, right]) - across[0][1]) / across[0][0]
    np.testing.assert_allclose((np.array([bottom, top]) - down[0][1]) / down[0][0], at, atol=0.01)
    assert page.text("#predicted-note").startswith("150 rows")


def test_the_histogram_counts_every_row_and_marks_the_quantiles(show):
    page = show(CONTENT)
    heights = page.js(
        "[...document.querySelectorAll('#errors-plot .column')].map(b => +b.getAttribute('height'))"
    )
    ticks = page.js(
        "[...document.querySelectorAll('#errors-plot .grid')].map(g =>"
        "+g.getAttribute('d').match(/ ([\\d.]+)H/)[1])"
    )
    labels = page.js(
        "[...document.querySelectorAll('#errors-plot text.right')].map(t => t.textContent)"
    )
    unit = (ticks[0] - ticks[1]) / (float(labels[1]) - float(labels[0]))
    assert sum(heights) / unit == pytest.approx(150, abs=0.01)
    bands = page.js(
        "[...document.querySelectorAll('#errors-plot rect.band')].map(b =>"
        "[+b.getAttribute('x'), +b.getAttribute('x') + +b.getAttribute('width')])"
    )
    line = page.js(
        "+document.querySelector('#errors-plot .choice').getAttribute('d').match(/M([\\d.]+)/)[1]"
    )
    places = [bands[0][0], bands[1][0], line, bands[1][1], bands[0][1]]
    fitted = np.polyfit(CHARTS.quantiles, places, 1, full=True)
    assert fitted[0][0] > 0
    assert fitted[1][0] < 1e-3
    q05, q25, middle, q75, q95 = (
        figure(q, of=CHARTS.quantiles[4] - CHARTS.quantiles[0]) for q in CHARTS.quantiles
    )
    said = f"Median {middle}; half of the rows between {q25} and {q75}, 90% between {q05} and {q95}"
    assert page.text("#errors-note").startswith(said)


def test_a_sample_of_very_many_rows_is_said_to_be_one(show):
    page = show(samples.tiny(charts=replace(CHARTS, left_out_rows=12_345)))
    assert page.text("#predicted-note").startswith("150 of 12,345 rows")


def test_window_may_change_its_width(show):
    page = show(CONTENT)
    page.shape(390)
    page.until(f"document.querySelector('{RISK}').getAttribute('width') < 390")
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")


def test_hostile_names_do_not_run(show):
    names = tuple(EVIL + str(j) for j in range(5))
    content = samples.tiny(charts=replace(CHARTS, coefficient_names=names, test_loss=EVIL))
    content = replace(content, title=EVIL, verdict=EVIL, model=EVIL, warnings=(EVIL,), command=EVIL)
    page = show(content)
    hover(page, RISK, 0.8)
    hover(page, PATHS, 0.5)
    assert page.js("typeof window.hurt") == "undefined"
    assert page.js("document.querySelectorAll('img').length") == 0
    assert page.js("document.querySelector('#panel li span').title") in names
    assert page.text("h1") == EVIL


def test_light_and_dark_follow_the_reader(show):
    page = show(CONTENT)
    light = page.js(BACKGROUND)
    page.shape(1280, scheme="dark")
    page.until("document.querySelector('#theme').textContent === 'Light'")
    dark = page.js(BACKGROUND)
    assert light != dark
    page.click(*page.place("#theme"))
    assert page.js(BACKGROUND) == light
    page.click(*page.place("#theme"))
    assert page.js(BACKGROUND) == dark
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.js(BACKGROUND) == "rgb(255, 255, 255)"
    page.call("Emulation.setEmulatedMedia", media="")
    page.js("localStorage.clear()")


def test_charts_are_labelled(show):
    for content in (CONTENT, of_classes(("no", "yes"))):
        page = show(content)
        labels = page.js(
            "[...document.querySelectorAll('.plot > svg')].map(s =>"
            "[s.getAttribute('role'), s.getAttribute('aria-label')])"
        )
        assert len(labels) >= 4
        assert all(role in ("img", "slider") and label for role, label in labels)


@pytest.mark.parametrize("name", ["fitted", "crowded"])
def test_charts_are_drawn_for_print(show, name):
    page = show(getattr(samples, name)())
    width = f"+document.querySelector('{RISK}').getAttribute('width')"
    before = page.js(width)
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    assert page.js(width) < 560
    # nothing is wider than the page
    assert page.js("[...document.querySelectorAll('.plot')].every(p => p.clientWidth <= 750)")
    page.js("window.dispatchEvent(new Event('afterprint'))")
    assert page.js(width) == before


def test_a_report_of_few_features_has_four_pages(show):
    page = show(samples.fitted())
    printed = page.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert 2 <= base64.b64decode(printed).count(b"/Type /Page\n") <= 4


def test_policy_refuses_a_network(browser, tmp_path):
    browser.open(render(CONTENT), tmp_path / "report.html")
    refused = browser.js(
        "new Promise(done => { document.addEventListener('securitypolicyviolation',"
        "e => done(e.effectiveDirective)); fetch('http://127.0.0.1:9/').catch(() => 0); })"
    )
    assert refused == "connect-src"
    assert browser.complaints()


def test_page_can_be_read_without_a_script(browser, tmp_path):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(render(CONTENT), tmp_path / "report.html")
    root = browser.call("DOM.getDocument", depth=-1)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    text = json.dumps(root, ensure_ascii=False)
    assert "requires JavaScript" in text
    assert plus_minus(CHARTS.risk[CHARTS.chosen[0]][CHARTS.chosen[1]], 0.08) in text
