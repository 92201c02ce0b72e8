"""A page that computes: what stands in it, what is refused, and, in a real browser, that it says what Python says."""

import base64
import contextlib
import functools
import hashlib
import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.__main__ import main
from tinygrad_seq.see.page_ready import READY


def three_uses(w=0.5, x=1.0, names=("w", "x", "h", "L")):
    w, x = tg.Tensor(w, requires_grad=True, name=names[0]), tg.Tensor(x, requires_grad=True, name=names[1])
    h = tg.Tensor(0.0, name=names[2])
    for t in (1, 2, 3):
        with tg.step(t):
            h = ((x if t == 1 else 0.0) + w * h).named(names[2])
    return (0.5 * (h - 1.0) ** 2).named(names[3])


def lstm(scale=1.0, x=0.7, steps=4):
    cell = tg.nn.LSTMCell(1, 1, rng=2)
    cell.b.data = cell.b.data * scale
    x = tg.Tensor([x], requires_grad=True, name="x")
    _, state = tg.nn.unroll(cell, tg.stack([x] + [0.5 * x] * (steps - 1)))
    return (0.5 * (state.h - 1.0) ** 2).sum().named("loss")


@functools.cache
def composed(name):
    return READY[name][1]()


def ready(name):
    return composed(name).page()


class Elements(HTMLParser):
    """The elements of a page, checked to be closed as they were opened, and the text in them."""

    ALONE = ("meta", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes, self.texts = [], [], {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.attributes.append((tag, dict(attributes)))
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.attributes.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(text)


def carried(page):
    """The data that a page carries."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html())[1])


# What stands in it ---------------------------------------------------------------------------------------------------


def test_a_page_needs_nothing_else_and_may_ask_for_nothing():
    page = tg.explore(three_uses(), knobs={"w": (-2, 2)}, holding="h")
    elements = Elements(page.html())
    policy = next(a["content"] for tag, a in elements.attributes if a.get("http-equiv") == "Content-Security-Policy")
    script = page.html().rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and policy.startswith("default-src 'none'")
    assert not {"src", "href", "style", "onclick", "oninput"} & {name for _, a in elements.attributes for name in a}
    assert set(re.findall(r"https?://[^\s\"'<>]+", page.html())) == {"http://www.w3.org/2000/svg"}


def test_a_page_of_twelve_lstm_steps_is_small():
    net = tg.nn.LSTM(4, 8, rng=0)
    outputs, _ = net(np.ones((12, 1, 4)))
    assert len(tg.explore((outputs**2).mean(), holding="h").html().encode()) < 200_000


def test_without_scripts_a_page_shows_the_numbers_of_the_recording():
    loss = three_uses()
    text = tg.explore(loss).html()
    flow = tg.Tape(loss).flow()
    cells = dict(re.findall(r'<td[^>]*data-cell="([^"]+)">([^<]+)<', text))
    assert cells["sum 0"] == "-0.75" == tg.Table(("",), [(flow["w"],)]).rows[0][0].__str__()
    assert [cells[f"use 0 {t}"] for t in (1, 2, 3)] == ["0", "-0.375", "-0.375"]
    assert "0.28125" in cells.values() and "<noscript>" in text


def test_every_control_has_a_name_and_every_page_says_what_it_does_not_show():
    elements = Elements(tg.explore(lstm(), knobs=["x", "b"], holding="h").html())
    labelled = {a["for"] for tag, a in elements.attributes if tag == "label" and "for" in a}
    for tag, a in elements.attributes:
        if tag == "input" and a["type"] == "range":
            assert a["id"] in labelled
    assert "What this picture does not show." in elements.texts["strong"]
    assert {"width=device-width, initial-scale=1"} <= {a.get("content") for _, a in elements.attributes}


@pytest.mark.parametrize("name", READY)
def test_a_ready_page_is_whole_without_a_browser(name):
    text = ready(name).html()
    elements = Elements(text)
    assert "What this picture does not show." in elements.texts["strong"]
    assert not re.findall(r"\bnan\b|\bNone\b|Tensor\(", re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL))


def test_of_many_steps_the_last_ones_are_drawn_and_can_be_cut():
    loss = tg.nn.RNN(1, 2, rng=0)(np.ones((50, 1)))[0].sum().named("L")
    assert carried(tg.explore(loss))["cuts"] == [[k, k + 1] for k in range(39, 50)]
    assert carried(tg.explore(loss, steps=(3, 5)))["cuts"] == [[3, 4], [4, 5]]


def test_small_leaves_get_knobs_and_a_name_gives_a_range():
    knobs = carried(tg.explore(lstm()))["knobs"]
    assert [k["label"] for k in knobs] == [
        "x",
        *(f"b[{k}]" for k in range(4)),
        *(f"A[{i},{k}]" for i in (0, 1) for k in range(4)),
    ]
    net = tg.nn.LSTM(2, 8, rng=0)
    large = carried(tg.explore((net(np.ones((2, 2)))[0] ** 2).sum()))["knobs"]
    assert [k["label"] for k in large] == [f"b[{k}]" for k in range(8)]
    ranges = [
        a
        for tag, a in Elements(tg.explore(three_uses(), {"w": (-2, 0.25)}).html()).attributes
        if a.get("type") == "range"
    ]
    assert [(a["min"], a["max"], a["value"]) for a in ranges] == [("-2.0", "0.5", "0.5")]  # wide enough to start


NAMES = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    [
        "</script>",
        "<!--",
        '"><img onerror=x>',
        "]]>",
        "'",
        "\\u003c",
        "🙂",
        "{0}",
        "$&",
        "\u2028",
        "a\x00b",
        "value 3",
        "&amp;",
    ]
)


@settings(deadline=None, max_examples=25)
@given(st.tuples(NAMES, NAMES, NAMES, NAMES))
def test_names_are_text_and_nothing_else(names):
    names = tuple(name or "w" for name in names)
    text = tg.explore(three_uses(names=names), knobs=None).html()
    plain = Elements(tg.explore(three_uses()).html())
    elements = Elements(text)
    # A drawing breaks its notes where it is wide enough for its names.
    assert [tag for tag, _ in elements.attributes if tag != "text"] == [
        tag for tag, _ in plain.attributes if tag != "text"
    ]
    assert text.count("</script") == 2
    labels = {label for _, _, label, _ in carried(tg.explore(three_uses(names=names)))["programs"][0]["tensors"]}
    assert any("".join(c if c.isprintable() else " " for c in names[0]) in label for label in labels)


# What is refused -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_explored_is_refused():
    loss = lstm()
    tape = tg.Tape(loss)
    with pytest.raises(TypeError, match=r"a tape or a loss, got Flow: its cuts are asked on the page"):
        tg.explore(tape.flow())
    with pytest.raises(TypeError, match=r"no option 'hold': say holding='h'"):
        tg.explore(loss, hold="h")
    with pytest.raises(TypeError, match=r"no option 'cut'; it takes knobs, holding and steps"):
        tg.explore(loss, cut=[(1, 2)])
    with pytest.raises(ValueError, match=r"no tensor on this tape is named 'z'"):
        tg.explore(loss, holding="z")
    with pytest.raises(ValueError, match=r"'loss' is computed at no step before the last"):
        tg.explore(loss, holding="loss")
    with pytest.raises(ValueError, match=r"holding takes names or tensors on this tape .* got w"):
        tg.explore(loss, holding=[tg.Tensor(1.0, requires_grad=True, name="w")])
    with pytest.raises(ValueError, match=r"one loss, a single number"):
        tg.explore(tg.Tape(loss, tape.find("h", 2)))
    with pytest.raises(ValueError, match=r"one loss, a single number"):
        tg.explore(tape.find("f", 2).reshape(1, 1) * np.ones((2, 2)))
    loss.backward()
    with pytest.raises(tg.TapeReleasedError):
        tg.explore(loss)


def test_a_knob_is_a_leaf_that_requires_a_gradient_with_a_range_of_two_numbers():
    loss = three_uses()
    with pytest.raises(
        ValueError, match=r"a knob sets a leaf, and L is none: add|a knob sets a leaf, and L is none: mul"
    ):
        tg.explore(loss, knobs={"L": (0, 1)})
    with pytest.raises(ValueError, match=r"needs requires_grad=True, and h is a constant"):
        tg.explore(loss, knobs=[tg.Tape(loss).find("h")[0]])
    with pytest.raises(ValueError, match=r"it is not on this tape. Leaves: w, x"):
        tg.explore(loss, knobs=[tg.Tensor(1.0, requires_grad=True, name="v")])
    with pytest.raises(TypeError, match=r"knobs are names of leaves, or leaves, .* got 3"):
        tg.explore(loss, knobs=[3])
    for span in ((1, 0), (0, np.nan), (-np.inf, 0), (1,), 3, "ab"):
        with pytest.raises(ValueError, match=r"the range of w"):
            tg.explore(loss, knobs={"w": span})
    with pytest.raises(ValueError, match=r"a knob starts at a number, and x holds nan"):
        tg.explore(three_uses(x=np.nan), knobs=["x"])
    assert [k["label"] for k in carried(tg.explore(three_uses(x=np.nan)))["knobs"]] == ["w"]
    big = tg.Tensor(np.ones(300), requires_grad=True, name="big")
    with pytest.raises(ValueError, match=r"300 knobs are too many"):
        tg.explore((big * big).sum(), knobs=["big"])


def test_a_page_is_saved_where_it_can_be(tmp_path):
    page = tg.explore(three_uses())
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page.html()
    with pytest.raises(ValueError, match=r"saved as .html, got 'page.svg'"):
        page.save("page.svg")
    with pytest.raises(OSError, match="missing"):
        page.save(tmp_path / "missing" / "page.html")
    Elements(page._repr_html_())
    assert repr(page) == f"Page({len(page.html())} characters; .html() or .save(path))"


# The command ---------------------------------------------------------------------------------------------------------


def test_the_command_lists_the_pages_and_writes_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0 and "explore" in capsys.readouterr().out
    assert main(["explore"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in READY)
    assert main(["explore", "three-uses"]) == 0
    assert "three-uses.html is written" in capsys.readouterr().out
    assert main(["explore", "three-uses"]) == 2
    assert "is there already: name another file with --into, or say --overwrite" in capsys.readouterr().err
    assert main(["explore", "three-uses", "--overwrite"]) == 0
    assert main(["explore", "three-uses", "--into", "missing/page.html"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main(["explore", "three-uses", "--into", "page.txt"]) == 2
    assert main(["explore", "nothing"]) == 2 and "there is no page 'nothing'" in capsys.readouterr().err
    assert main(["nothing"]) == 2 and "there is no command 'nothing'" in capsys.readouterr().err


def test_the_command_runs_as_a_module():
    ran = subprocess.run([sys.executable, "-m", "tinygrad_seq", "explore"], capture_output=True, text=True)
    assert ran.returncode == 0 and "three-uses" in ran.stdout


# In a browser --------------------------------------------------------------------------------------------------------

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no browser was found: these tests need chromium, and the package playwright to drive it")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not installed")
    with driver.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; afterwards it is checked that nothing was fetched and nothing went wrong."""
    wrong = []

    def open_page(page, width=1280, **options):
        page.save(tmp_path / "page.html")
        tab = browser.new_context(viewport={"width": width, "height": 900}, **options).new_page()
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda request: request.url.startswith("file:") or wrong.append(request.url))
        tab.goto((tmp_path / "page.html").as_uri())
        return tab

    yield open_page
    for context in browser.contexts:
        context.close()
    assert not wrong


FOUND = """() => page.found.map(({ program, arrived }) => program.tensors.map(([slot, step, label], t) =>
  [label, Array.from(program.value(t)), arrived.has(t) ? Array.from(arrived.get(t)) : null]))"""


def turned(tab, k, keys):
    """A slider, turned by keys; what it says then."""
    slider = tab.locator(f"#knob-{k}")
    slider.focus()
    for key in keys:
        slider.press(key)
    return float(tab.locator(f"[data-exact='{k}']").input_value()), slider.get_attribute("aria-valuetext")


def number_of(text):
    return np.nan if text in ("—", "·") else float(text.strip("=‖ ").replace("‖", ""))


def agree(tab, loss, cut=(), holding=()):
    tape = tg.Tape(loss)
    flow = tape.flow(cut=cut, holding=holding)
    (found,) = tab.evaluate(FOUND)
    tensors = [*(x for x in tape.leaves if x.requires_grad), *tape]
    for x, (label, value, credit) in zip(tensors, found, strict=True):
        np.testing.assert_allclose(value, x.detach().data.ravel(), 1e-9, 1e-12, err_msg=label)
        assert (credit is None) == (x not in flow._arrived), label
        if credit is not None:
            np.testing.assert_allclose(credit, flow[x].ravel(), 1e-9, 1e-12, err_msg=label)
    shown = tab.evaluate(
        "() => [...document.querySelectorAll('[data-cell]')].map((e) => [e.dataset.cell, e.textContent])"
    )
    for cell, text in shown:
        what, t, *_ = cell.split()
        x = tensors[int(t)]
        right = {"value": x.detach().data, "credit": flow._arrived.get(x), "sum": flow[x]}.get(what)
        if right is not None:
            np.testing.assert_allclose(number_of(text), np.linalg.norm(right) if x.size > 1 else right.item(), 1e-3)
    return flow


def test_every_knob_turned_by_keys_gives_in_a_browser_what_python_gives(opened):
    tab = opened(tg.explore(three_uses(), knobs={"w": (-2, 2), "x": (-1, 1)}))
    agree(tab, three_uses())
    moves = (["Home"], ["End"], ["ArrowLeft"] * 3, ["PageDown", "ArrowRight"])
    for (first, second), cut in itertools.product(itertools.product(moves, moves[1:3]), ([], [(2, 3)])):
        w, says = turned(tab, 0, first)
        x, _ = turned(tab, 1, second)
        assert says.startswith("w = ")
        if tab.locator("[data-cut='1']").is_checked() != bool(cut):
            tab.locator("[data-cut='1']").press("Space")
        flow = agree(tab, three_uses(w, x), cut=cut)
        uses, _ = flow.uses("w").totals(lambda use: use.step, lambda c: c.item())
        for t in (1, 2, 3):
            shown = number_of(tab.locator(f"td[data-cell='use 0 {t}']").text_content())
            np.testing.assert_allclose(shown, uses.get(t, np.nan), 1e-4)


def test_cuts_and_held_tensors_are_switched_on_the_same_program(opened):
    tab = opened(tg.explore(lstm(), knobs=["x", "b"], holding="h"))
    x, _ = turned(tab, 0, ["Home"])
    for cut, hold in itertools.product((False, True), repeat=2):
        tab.locator("[data-cut='1']").set_checked(cut)
        tab.locator("[data-hold='0']").set_checked(hold)
        loss = lstm(x=x)
        held = [h for h in tg.Tape(loss).find("h") if h.requires_grad and h.step != 4]
        agree(tab, loss, [(2, 3)] if cut else [], held if hold else [])
        drawing = tg.draw(tg.Tape(loss).flow(cut=[(2, 3)] if cut else [], holding=held if hold else []), fold=None)
        dotted = tab.evaluate(
            "() => [...document.querySelectorAll('[data-edge] path:first-of-type')].map((e) => e.matches('.value'))"
        )
        assert dotted == [not e.carries for e in drawing.edges]
    address = tab.url
    tab.goto("about:blank")
    tab.goto(address)
    assert tab.locator("[data-cut='1']").is_checked() and tab.locator("[data-hold='0']").is_checked()
    agree(tab, loss, [(2, 3)], held)


def test_the_steps_are_walked_forward_and_back_and_end_at_the_gradient(opened):
    tab = opened(tg.explore(three_uses(), knobs=["w"]))
    box = tab.locator("#stepper")
    box.focus()
    box.press("Home")
    assert tab.locator("#says").text_content().startswith("1 of ")
    said = []
    for _ in range(40):
        said.append(tab.locator("#says").text_content())
        box.press("ArrowRight")
    assert re.search(r"Forward, step 3: h₃ = 0 \+ %\d = 0\.25\.", " ".join(said))
    assert "times the local rate (the other factor): -0.375 is added to w, which has -0.375 so far" in " ".join(said)
    assert "-0.375 is added to w, which has -0.75 so far" in " ".join(said)
    assert tab.locator(".now").count() == 1 and "h₁" in tab.locator(".now").text_content()  # w · h goes into it
    box.press("Escape")
    assert tab.locator(".now").count() == 0
    agree(tab, three_uses())


def test_a_step_of_gradient_descent_is_shown_and_taken(opened):
    tab = opened(tg.explore(three_uses(), knobs=["w"]))
    after = tab.locator("[data-cell^='after']").first.text_content()
    assert after == "0.224031"
    tab.locator("#update").click()
    assert float(tab.locator("[data-exact='0']").input_value()) == pytest.approx(0.575, abs=1e-12)
    agree(tab, three_uses(w=0.575))
    tab.locator("#reset").click()
    agree(tab, three_uses())


def test_what_is_not_finite_is_shown_as_it_is(opened):
    w, h = tg.Tensor([np.inf, 1.0], requires_grad=True, name="w"), tg.Tensor([1.0, 1.0], name="h")
    x = tg.Tensor(1.0, requires_grad=True, name="x")
    for t in (1, 2):
        with tg.step(t):
            h = (w * h * x).named("h")
    tab = opened(tg.explore(h.sum(), knobs={"x": (-1e300, 1e300)}))
    turned(tab, 0, ["Home"])
    assert "‖inf‖" in tab.locator("svg").first.text_content()
    tab.locator("[data-exact='0']").fill("")  # no number: nothing changes
    assert "‖inf‖" in tab.locator("svg").first.text_content()


@pytest.mark.parametrize("name", READY)
def test_a_ready_page_shows_in_a_browser_what_stands_in_it_and_fits_a_phone(opened, name):
    page = ready(name)
    written = re.findall(r'data-cell="[^"]+"[^>]*>([^<]*)<', page.html())
    tab = opened(page, width=390, color_scheme="dark")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    shown = tab.evaluate("() => [...document.querySelectorAll('[data-cell]')].map((e) => e.textContent)")
    for before, now in zip(written, shown, strict=True):
        if before != "—":
            np.testing.assert_allclose(number_of(now), number_of(before), 1e-3, 1e-300)


def again(tape, leaves):
    """What a recorded tape computes from other leaves: its operations, called once more; of each tensor the new one."""
    now = {
        x: tg.Tensor(leaves.get(x, x.detach().data), requires_grad=x.requires_grad, name=x.name) for x in tape.leaves
    }
    for t in tape:
        record = t.record
        with tg.step(t.step) if t.step is not None else contextlib.nullcontext():
            now[t] = record.operation(
                *(now.get(x, x) if isinstance(x, tg.Tensor) else x for x in record.inputs), **record.options
            )
    return now


@pytest.mark.parametrize("name", READY)
def test_a_ready_page_computes_what_python_computes_wherever_its_knobs_stand(opened, name):
    page = composed(name)
    tab = opened(page.page())
    sliders = [k for k, knob in enumerate(page.knobs) if not knob.switch]
    for keys in (["Home"], ["PageUp"], ["ArrowLeft", "PageDown"]):
        for k in sliders:
            turned(tab, k, keys)
        for k in set(range(len(page.knobs))) - set(sliders):
            tab.locator(f"[data-knob='{k}']").press("Space")
        values = [float(v) for v in tab.evaluate("() => page.state.knobs.map(String)")]
        found = tab.evaluate(FOUND)
        for p, figure in enumerate(page.figures):
            program = figure.program
            leaves = {x: x.detach().data.copy() for x in program.tape.leaves}
            for knob, v in zip(page.knobs, values, strict=True):
                for q, x, entry in knob.places:
                    if q == p:
                        leaves[x].reshape(-1)[entry] = v
            with np.errstate(all="ignore"):
                now = again(program.tape, leaves)
                asked = now[page.seeds[page.seed][1] if page.seeds else program.result]
                flow = tg.Tape(asked).flow()
            for x, (label, value, credit) in zip(program.tensors, found[p], strict=True):
                right, given = now[x].detach().data.ravel(), numbers(value)
                np.testing.assert_allclose(given, right, 1e-9, 1e-12, err_msg=label)
                assert (credit is None) == (now[x] not in flow._arrived), label
                if credit is not None:  # where tanh is flat, 1 - y² has lost its digits
                    right = flow[now[x]].ravel()
                    np.testing.assert_allclose(
                        numbers(credit), right, 1e-9, 1e-12 * max(1, abs(right).max()), err_msg=label
                    )


def numbers(found):
    return np.array([np.nan if v is None else v for v in found], float)


def test_in_a_notebook_a_page_computes_as_well(opened, tmp_path):
    tab = opened(tg.explore(three_uses(), knobs={"w": (-2, 2)}))
    frame = tg.explore(three_uses(), knobs={"w": (-2, 2)})._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{frame}</body>", "utf-8")
    tab.goto((tmp_path / "notebook.html").as_uri())
    inside = tab.frame_locator("iframe")
    inside.locator("[data-exact='0']").fill("0.9")
    assert inside.locator("td[data-cell='sum 0']").text_content() == "-0.342"


def shown(tab, caption):
    """The rows of a table: what stands in its cells."""
    rows = tab.locator("table", has=tab.locator("caption", has_text=caption)).locator("tbody tr")
    return {row.locator("th").text_content(): row.locator("td").all_text_contents() for row in rows.all()}


def test_a_push_of_a_state_changes_the_loss_by_the_gradient_and_half_its_square(opened):
    tab = opened(ready("three-uses"))
    tab.locator("[data-exact='5']").fill("0.4")
    assert shown(tab, "A push")["added to h₃"] == ["0.4", "-0.3", "-0.22", "0.08"]  # -.75 δ + ½ δ²
    tab.locator("[data-exact='5']").fill("0")
    tab.locator("[data-exact='4']").fill("0.4")
    assert shown(tab, "A push")["added to h₂"] == ["0.4", "-0.15", "-0.13", "0.02"]  # it arrives as w δ = .2
    tab.locator("[data-cut='1']").check()  # and of it the gradient that is left foretells nothing
    assert shown(tab, "A push")["added to h₂"] == ["0.4", "0", "-0.13", "-0.13"]
    tab.locator("#reset").click()
    assert shown(tab, "Values")["h₃"] == ["0.25", "-0.75", "0.330625"]


def test_the_two_routes_through_a_cell_are_what_the_gates_send(opened):
    tab = opened(ready("lstm-cell"))
    rows = {name.strip(): float(cell) for name, (cell,) in shown(tab, "The ways").items()}
    assert rows["direct (h held)"] == 0.802027 and rows["second, through h"] == 0.15316
    assert sum(rows[f"of it by {gate}"] for gate in "fig") == pytest.approx(0.15316, abs=1e-6)
    assert tab.locator("tfoot td").first.text_content() == "0.955187"
    tab.locator("[data-hold='0']").check()
    assert tab.locator("tfoot td").first.text_content() == "0.802027"


def test_the_machine_starts_wrong_and_each_task_is_done_by_its_weights(opened):
    tab = opened(ready("one-unit"))
    light = tab.locator("#light")
    assert light.text_content().endswith("The first step that goes wrong: 5.")
    tab.locator("[data-exact='5']").fill("-40")  # the sign of U of i
    assert light.text_content() == "Toggle: every 1 turns it over. Every step is right."
    for name in ("latch", "hold", "count", "toggle", "holds, but passes no credit"):
        tab.get_by_role("button", name=name, exact=True).click()
        assert light.text_content().endswith("Every step is right.")
        for k in (0, 3):  # other inputs, the same machine
            tab.locator("[type=checkbox]").nth(k).click()
            assert light.text_content().endswith("Every step is right.")
    back = [float(cells[-1]) for cells in shown(tab, "Step by step").values()]
    np.testing.assert_allclose(back, 0.5, atol=0.01)
    assert "each step halves the credit" in tab.locator(".preset-says").text_content()


def test_an_exploding_step_is_thrown_far_and_a_clipped_one_is_not(opened):
    tab = opened(ready("explosion"))
    assert shown(tab, "Values")["w"] == ["1.5", "4.59502e+06", "-459500"]
    tab.locator("#clip").fill("1")
    assert shown(tab, "Values")["w"][2] == "1.4"


def test_both_conventions_of_the_gru_stand_side_by_side(opened):
    tab = opened(ready("gru"))
    assert tab.locator("tfoot td[data-cell]").all_text_contents() == ["0.739738", "0.257638"]
    places = [box["y"] for box in (table.bounding_box() for table in tab.locator("table").all())]
    assert places[0] == places[1]


def test_a_forget_gate_costs_steps(opened):
    tab = opened(ready("forget-row"))
    assert shown(tab, "Step by step")["step 4"][:3] == ["0.5", "0.485149", "68.9676"]


def test_the_cell_survives_and_the_rnn_stays_within_its_bound(opened):
    tab = opened(ready("survival"))
    for bias, left in (
        ("0", ["9.76562e-04", "8.88178e-16"]),
        ("3", ["0.61516", "0.0880925"]),
        ("7", ["0.990926", "0.955448"]),
    ):
        tab.locator("[data-exact='1']").fill(bias)
        found = shown(tab, "cell path")["LSTM, along the cell"]
        np.testing.assert_allclose([float(x) for x in found[1:3]], [float(x) for x in left], 1e-5)
    for rho in ("0.5", "0.9", "1.1", "2"):
        tab.locator("[data-exact='0']").fill(rho)
        rows = {name: np.array([float(x) for x in cells]) for name, cells in shown(tab, "8 RNNs").items()}
        assert (rows["tanh RNN, the least"][1:] <= rows["the most"][1:]).all()
        assert (rows["the most"][1:] <= rows["bound ρᵏ"][1:]).all()


def test_a_prediction_owes_nothing_to_what_comes_after_it(opened):
    tab = opened(ready("sentence"))
    chosen = tab.locator(".sentence .chosen")
    assert chosen.get_attribute("aria-label") == "14: w"
    credit = [cells[0] for cells in shown(tab, "Every character").values()]
    assert credit.index("—") == 13 and set(credit[13:]) == {"—"}
    tab.locator(".sentence button").nth(3).hover()
    assert chosen.get_attribute("aria-label") == "4: e"
    assert [cells[0] for cells in shown(tab, "Every character").values()].index("—") == 3
    tab.locator("#seed").press("ArrowRight")
    assert tab.locator("#seed").get_attribute("aria-valuetext").startswith("5:")
