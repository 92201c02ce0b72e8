"""A text is shaded by its weights, and its letters are text and nothing else."""

from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_seq as tg
from tests.see.test_drawing import contrast
from tinygrad_seq.see import shading


class Spans(HTMLParser):
    """The spans of a shaded text: their styles, titles and contents; no other element may be in it."""

    def __init__(self, text):
        super().__init__()
        self.found, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "span":
            self.found.append([dict(attributes), ""])

    def handle_data(self, data):
        if self.found:
            self.found[-1][1] += data


LETTERS = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(["</span><b>", "\"'&<>", "😀é"])


@given(LETTERS, st.data())
def test_every_character_has_its_weight(text, data):
    weights = data.draw(st.lists(st.floats(), min_size=len(text), max_size=len(text)))
    shaded = tg.see.text(text, weights)
    spans = Spans(shaded.html())
    assert spans.tags <= {"p", "span"} and len(spans.found) == len(text)
    finite = [abs(w) for w in weights if np.isfinite(w)]
    for (attributes, content), letter, w in zip(spans.found, text, weights, strict=True):
        assert content == letter or not letter.isprintable()
        assert ("line-through" in attributes["style"]) == (not np.isfinite(w))
        if np.isfinite(w) and abs(w) == max(finite) > 0:
            colour = shading.POSITIVE if w > 0 else shading.NEGATIVE
            assert f"#{bytes(colour).hex()}" in attributes["style"]


def test_the_ink_stands_out_from_every_shade():
    for share in np.linspace(-1, 1, 9):
        assert contrast(shading.INK, shading._colour(share)) >= 4.5
    assert contrast(shading.INK, shading._colour(np.nan)) >= 4.5


def test_a_prediction_shows_what_it_owes_its_gradient_to():
    xs = tg.Tensor(np.eye(4)[[0, 1, 2, 3, 1]], requires_grad=True)
    h, _ = tg.nn.unroll(tg.nn.RNNCell(4, 3, rng=0), xs)
    weights = np.linalg.norm(tg.Tape(h[2].sum()).flow()[xs], axis=-1)
    shaded = tg.see.text("abcdb", weights)
    assert [style["style"].endswith("#ffffff") for style, _ in Spans(shaded.html()).found] == [False] * 3 + [True] * 2
    assert shaded._repr_html_() == shaded.html() and repr(shaded).startswith("Shaded(5 parts")


def test_what_is_no_text_with_weights_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"one entry for each of the 3 characters, shape \(3,\), got \(2,\)"):
        tg.see.text("abc", [1.0, 2.0])
    with pytest.raises(ValueError, match=r"take the norm: np.linalg.norm\(g, axis=-1\)"):
        tg.see.text(["a", "b"], np.ones((2, 3)))
    with pytest.raises(TypeError, match="a list of tokens that are strings; got int"):
        tg.see.text([1, 2], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"saved as .html, got 'text.png'"):
        tg.see.text("a", [1.0]).save("text.png")
    tg.see.text("a", tg.Tensor([1.0])).save(tmp_path / "text.html")
    assert "<span" in (tmp_path / "text.html").read_text("utf-8")


def test_a_chart_of_a_text_breaks_lines_between_words():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="charts need the extra `plot`")
    words = "the cat sat on the mat and the dog lay by the door until the sun had gone down $x^2$"
    shaded = tg.see.text(words, np.linspace(-1, 1, len(words)))
    lines = ["".join(words[k] for k in line) for line in shaded._lines()]
    assert "".join(lines) == words and len(lines) == 2 and lines[0].endswith(" ") and len(lines[0]) <= shading.LINE
    ax = shaded.plot()
    ax.figure.canvas.draw()
    assert "".join(text.get_text() for text in ax.texts).replace("\\", "") == words
    assert tg.see.text("", []).plot() is not None
    assert len(tg.see.text("x" * 200, np.ones(200))._lines()) == 4
    pyplot.close("all")
