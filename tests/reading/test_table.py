"""Tables as values: what they hold, and how they print."""

import csv
import dataclasses
import io
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.reading.table import ASCII, number, printable

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
def test_a_number_prints_as_short_as_it_is_exact(x):
    text = number(x)
    assert float(text) == x
    assert len(text) <= len(repr(x))
    assert not text.endswith(".0")


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float32_prints_the_digits_that_it_has_and_no_more(x):
    x = np.float32(x)
    assert np.float32(number(x)) == x
    assert len(number(x)) <= len(str(x))
    assert number(np.array(x)) == number(x)


@pytest.mark.parametrize("zero", [-0.0, 0.0, np.float32(-0.0), np.array(-0.0)])
@pytest.mark.parametrize("precision", [None, 3])
def test_minus_zero_prints_as_zero(zero, precision):
    assert number(zero, precision) == "0"


def test_numbers_of_other_kinds_print_as_themselves():
    assert [number(x) for x in (3, np.int64(4), "text", None, True, np.False_, float("nan"), -np.inf)] == [
        "3", "4", "text", "—", "●", "·", "nan", "-inf",
    ]  # fmt: skip
    assert [number(x, 2) for x in (1 / 3, 12345.0, 2.0, 7)] == ["0.33", "1.2e+04", "2", "7"]


mixed = st.one_of(finite, st.integers(-1000, 1000), st.text("ab|,\"' <&>é\n", max_size=5), st.none(), st.booleans())
tables = st.integers(1, 4).flatmap(
    lambda n: st.builds(
        tg.Table,
        st.lists(st.text("abσ→ ", min_size=1, max_size=6), min_size=n, max_size=n),
        st.lists(st.tuples(*[mixed] * n), min_size=1, max_size=4),
        title=st.sampled_from(["", "A title"]),
        foot=st.integers(0, 1),
    )
)


@given(tables)
def test_the_csv_of_a_table_can_be_read_back(table):
    heads, *rows = csv.reader(io.StringIO(table.to_csv(), newline=""))
    assert tuple(heads) == table.columns
    for read, row in zip(rows, table.rows, strict=True):
        for text, x in zip(read, row, strict=True):
            if isinstance(x, bool):
                assert text == str(int(x))
            elif isinstance(x, (int, float)):
                assert float(text) == x
            else:
                assert text == (x or "")


class Cells(HTMLParser):
    """The texts in the cells of a page, in order."""

    def __init__(self):
        super().__init__()
        self.cells, self.open = [], False

    def handle_starttag(self, tag, attrs):
        self.open = tag in ("td", "th", "caption")
        if self.open:
            self.cells.append("")

    def handle_endtag(self, tag):
        self.open = False

    def handle_data(self, data):
        if self.open:
            self.cells[-1] += data


@given(tables)
def test_the_html_of_a_table_holds_every_text_escaped(table):
    page = Cells()
    page.feed(table._repr_html_())
    title = [table.title] if table.title else []
    assert page.cells == [*title, *table.columns, *(text for line in table.texts() for text in line)]


@given(tables)
def test_ascii_is_ascii_unless_the_reader_wrote_otherwise(table):
    written = "".join(x for row in table.rows for x in row if isinstance(x, str))
    assert table.to_text(ascii=True).isascii() or not written.isascii()


def test_a_table_prints_with_its_points_below_one_another():
    table = tg.Table(
        ("step", "name", "value", "mark"),
        [(1, "first", 10.5, True), (12, "x", -0.25, False), (None, "", 3, True), ("sum", None, None, None)],
        title="Some numbers",
        foot=1,
    )
    assert table.to_text().splitlines() == [
        "Some numbers",
        "step  name   value  mark",
        "────  ─────  ─────  ────",
        "   1  first  10.5      ●",
        "  12  x      -0.25     ·",
        "   —          3        ●",
        "────  ─────  ─────  ────",
        " sum  —       —        —",
    ]
    assert table.to_text(ascii=True).splitlines()[2:6] == [
        "----  -----  -----  ----",
        "   1  first  10.5      x",
        "  12  x      -0.25     .",
        "   -          3        x",
    ]


def test_markdown_escapes_what_would_end_a_cell():
    table = tg.Table(("‖h‖ | h", "n"), [("a|b", 1.0)])
    assert table.to_markdown().splitlines() == ["| ‖h‖ \\| h | n |", "| --- | ---: |", "| a\\|b | 1 |"]


def test_an_empty_table_prints_its_headings():
    assert str(tg.Table(("a", "b"), [])).splitlines() == ["a  b", "─  ─"]
    assert tg.Table(("a", "b"), []).to_csv() == "a,b\n"


def test_precision_changes_the_print_and_not_the_rows():
    table = tg.Table(("x",), [(2 / 3,)])
    rounded = dataclasses.replace(table, precision=2)
    assert (rounded.rows, rounded.texts()) == (table.rows, [["0.67"]])
    assert table == tg.Table(["x"], [[2 / 3]])
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.title = "other"


def test_rows_of_another_length_and_columns_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"columns \('a', 'b'\) got a row of 1"):
        tg.Table(("a", "b"), [(1, 2), (3,)])
    with pytest.raises(ValueError, match="has the columns 'a'; got 'c'"):
        tg.Table(("a",), [(1,)]).column("c")


@pytest.mark.parametrize(("encoding", "kept"), [("utf-8", True), ("ascii", False), ("latin-1", False), (None, True)])
def test_a_terminal_that_lacks_the_signs_gets_ascii(monkeypatch, encoding, kept):
    class Terminal(io.StringIO):
        pass

    Terminal.encoding = encoding
    monkeypatch.setattr(sys, "stdout", Terminal())
    table = tg.Table(("σ", "→"), [(1.0, "é")])
    text = str(table)
    assert ("σ" in text) == kept
    text.encode(encoding or "utf-8")
    assert kept or "sigma" in text


def test_what_ascii_cannot_spell_is_written_as_its_code(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert printable("世", "世") == "\\u4e16"


def test_signs_of_the_tables_have_an_ascii_spelling():
    w, h = tg.Tensor([[0.5, 0.1], [0.2, 0.3]], requires_grad=True, name="w"), tg.Tensor([1.0, 2.0], name="h")
    for t in (1, 2):
        with tg.step(t):
            h = tg.tanh(h @ w).named("h")
    tape = tg.Tape(h.sum())
    flow = tape.flow()
    tables = [flow.table("h", w), flow.chain("h"), flow.chain("h", entry=(0, 1)), flow.uses(w).table()]
    tables += [tape.visibility("h", [w]).table(), flow.credit([tape.results[0]], w).table()]
    tables.append(tg.state_jacobian(tg.nn.LSTMCell(1, 2, rng=0), [1.0], tg.nn.LSTMCell(1, 2).initial_state()).table())
    for table in tables:
        assert table.to_text(ascii=True).isascii(), table.to_text(ascii=True)
    assert all(text.isascii() for text in ASCII.values())


def test_a_matrix_is_an_array_that_knows_its_names():
    array = np.array([[1.0, 0.5], [-0.0, 2.0]])
    matrix = tg.Matrix(array, ["a", "b"], ["x", "y"], title="M")
    assert str(matrix).splitlines() == ["M", "   x    y", "─  ─  ───", "a  1  0.5", "b  0  2"]
    assert (matrix == array).all() and matrix.sum() == 3.5 and matrix.shape == (2, 2)
    assert type(matrix.sum()) is np.float64 and type(matrix + 1) is np.ndarray and type(matrix @ matrix) is np.ndarray
    assert matrix[0, 1] == 0.5
    assert matrix.to_csv() == ",x,y\na,1,0.5\nb,0,2\n"
    assert matrix.to_markdown().startswith("**M**")
    assert "<table>" in matrix._repr_html_()
    part = matrix[:1]
    assert str(part) == "[[1.  0.5]]"
    assert part._repr_html_() is None
    with pytest.raises(ValueError, match="whole matrix"):
        part.table()


def test_tables_of_a_flow_hold_numbers_and_print_norms_with_six_digits():
    w, h = tg.Tensor([[0.5, 0.1], [0.2, 0.3]], requires_grad=True, name="w"), tg.Tensor([1.0, 2.0], name="h")
    for t in (1, 2):
        with tg.step(t):
            h = tg.tanh(h @ w).named("h")
    flow = tg.Tape(h.sum().named("L")).flow()
    table = flow.table("h", w)
    assert table.columns == ("step", "‖h before‖", "‖h‖", "‖∂L/∂h‖", "‖contribution to ∂L/∂w‖")
    assert table.rows[0][4] == np.linalg.norm(flow.uses(w)[0].contribution)
    assert table.texts()[0][4] == f"{table.rows[0][4]:.6g}"
    assert table.rows[-1][-2:] == ("= ‖∂L/∂w‖", np.linalg.norm(flow[w]))
    one = flow.table("h", w, entry=(0, 1), precision=3)
    assert one.columns[-1] == "contribution to ∂L/∂w[0, 1]"
    assert one.column(one.columns[-1])[-1] == flow[w][0, 1]
    assert one.texts()[-1][-1] == f"{flow[w][0, 1]:.3g}"


def test_a_table_in_latex_spells_out_every_sign():
    table = tg.Table(("step", "∂L/∂w_0 & more"), [("1 → 2", -0.5), ("50%", 1.5e-05), ("—", 2.0)], "a {title}", foot=1)
    assert table.to_latex() == "\n".join([
        "% a {title}", r"\begin{tabular}{lr}", r"\toprule",
        r"step & $\partial$L/$\partial$w\_0 \& more \\", r"\midrule",
        r"1 $\to$ 2 & $-0.5$ \\", r"50\% & $1.5\times10^{-5}$ \\", r"\midrule", r"--- & 2 \\", r"\bottomrule",
        r"\end{tabular}", "",
    ])  # fmt: skip
    assert tg.Matrix(np.eye(1), ["a"], ["b"]).to_latex().count(r"\\") == 2


@given(st.text(max_size=30))
def test_a_cell_in_latex_stays_within_its_cell(text):
    line = tg.Table(("a",), [(text,)]).to_latex().split("\n")[3]
    plain = re.sub(
        r"\\(text\w+\{\}|dots\{\}|[A-Za-z]+|[#$%&_{}])|\$[^$]*\$|10\^\{-?\d+\}", "", line.removesuffix(r" \\")
    )
    assert not set(plain) & set("\\#$%&_{}~^<>|")
