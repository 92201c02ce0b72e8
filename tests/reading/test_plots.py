"""Charts show the numbers of the readings, on the axes that they are given, for every eye."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.reading import plots

matplotlib = pytest.importorskip("matplotlib", reason="charts need the extra `plot`")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def flow_of(cell, T=12):
    xs = np.random.default_rng(0).standard_normal((T, 2, 2))
    return tg.Tape(tg.nn.unroll(cell, xs)[0][-1].sum()).flow()


def test_a_chain_is_plotted_against_the_distance_with_its_bound_dashed():
    chain = flow_of(tg.nn.RNNCell(2, 3, rng=0)).chain("h")
    ax = chain.plot()
    solid, dashed = ax.lines
    assert list(solid.get_xdata()) == list(range(12)) == list(dashed.get_xdata())
    np.testing.assert_array_equal(solid.get_ydata(), [1, *chain.column("left")])
    np.testing.assert_array_equal(dashed.get_ydata(), [1, *chain.column("bound")])
    assert dashed.get_linestyle() == "--" and dashed.get_color() == solid.get_color()
    assert ax.get_yscale() == "log" and "steps back" in ax.get_xlabel() and "left" in ax.get_ylabel()


def test_several_chains_share_axes_and_are_told_apart_without_colours():
    ax = pyplot.subplots()[1]
    for name, cell in {"RNN": tg.nn.RNNCell(2, 3, rng=0), "GRU": tg.nn.GRUCell(2, 3, rng=0)}.items():
        assert flow_of(cell).chain("h").plot(ax, label=name) is ax
    curves = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["RNN", "GRU"]
    assert len({line.get_color() for line in curves}) == len({line.get_marker() for line in curves}) == 2


def test_a_chain_of_numbers_is_bounded_by_its_product_and_what_is_nothing_is_left_out():
    w, h = tg.Tensor(-0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    for t in (1, 2, 3):
        with tg.step(t):
            h = ((0.0 if t == 2 else w) * h + w).named("h")
    solid, dashed = tg.Tape(h).flow().chain("h").plot().lines
    np.testing.assert_array_equal(solid.get_ydata(), [1, 0.5, np.nan])
    np.testing.assert_array_equal(dashed.get_ydata(), [1, 0.5, np.nan])
    flow = tg.Tape(2.0 * h).flow(holding=[h])
    with pytest.raises(ValueError, match="no credit came to the last state"):
        flow.chain("h").plot()


def test_a_matrix_is_a_field_for_each_entry_under_its_names():
    x = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True, name="x")
    seen = tg.Tape(y := tg.cumsum(x).named("y")).visibility(y, x)
    ax = seen.plot()
    np.testing.assert_array_equal(ax.images[0].get_array(), np.asarray(seen))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x[0]", "x[1]", "x[2]"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["y[0]", "y[1]", "y[2]"]
    with pytest.raises(ValueError, match="the names belong to the whole matrix"):
        seen[:1].plot()
    for entries in ([[1.0, -3.0]], [[np.nan, np.inf]], [[0.0, 0.0]]):  # about zero both ways, and never without a scale
        image = tg.Matrix(np.array(entries), ["a"], ["b", "c"]).plot().images[0]
        assert image.norm.vmax > 0 and image.norm.vmin in (0, -image.norm.vmax)


def test_a_gate_is_plotted_over_time_a_line_for_each_unit():
    tape = flow_of(tg.nn.LSTMCell(2, 3, rng=0)).tape
    ax = tape.plot("f", row=1)
    for k, line in enumerate(ax.lines):
        np.testing.assert_array_equal(line.get_ydata(), [f.data[1, k] for f in tape.find("f")])
    assert len(ax.lines) == 3 and "row 1 of 2" in ax.get_title() and ax.get_xlabel() == "step"
    many = flow_of(tg.nn.LSTMCell(2, 20, rng=0)).tape.plot("c")
    assert many.images[0].get_array().shape == (20, 12) and many.get_ylabel() == "unit"


def test_what_cannot_be_plotted_over_time_is_refused():
    outputs, _ = tg.nn.LSTM(2, 3, layers=2, rng=0)(np.ones((3, 2)))
    tape = tg.Tape(outputs.sum())
    with pytest.raises(ValueError, match=r"say which with a scope: \['layer0.f', 'layer1.f'\]"):
        tape.plot("f")
    assert tape.plot("layer1.f").lines
    with pytest.raises(ValueError, match=r"'A' is at no step of this tape: label the steps with tg.step\(t\)"):
        tape.plot("A")
    with pytest.raises(ValueError, match=r"'f' has 2 rows, 0 to 1; got row=2"):
        flow_of(tg.nn.LSTMCell(2, 3, rng=0)).tape.plot("f", row=2)


def test_training_is_plotted_from_the_updates_that_were_made_now():
    w = tg.Tensor(4.0, requires_grad=True)
    run = tg.fit(
        lambda x: (w * x - 1.0) ** 2, [1.0] * 6, tg.optim.SGD([w], lr=0.1), evaluate=w.item, every=2, updates=6
    )
    ax = run.plot()
    assert list(ax.lines[0].get_xdata()) == [1, 2, 3, 4, 5, 6] and list(ax.lines[0].get_ydata()) == run.losses
    other = ax.figure.axes[1]
    assert list(other.lines[0].get_xdata()) == [2, 4, 6]
    resumed = run._replace(updates=106, evaluations=[(106, {"not": "a number"})])
    assert list(resumed.plot().lines[0].get_xdata()) == [101, 102, 103, 104, 105, 106]
    assert run._repr_html_() == run.table().to_html()
    assert run._replace(losses=[], evaluations=[], updates=0).plot() is not None


@settings(max_examples=8, deadline=None)
@given(st.text(st.characters(codec="latin-1"), min_size=1, max_size=8) | st.sampled_from(["$x$", "a$", r"\frac{", "_"]))
def test_a_name_is_no_formula(name):
    matrix = tg.Matrix(np.eye(1), [name], [name], name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a font need not have every letter
        ax = matrix.plot()
        ax.figure.canvas.draw()
    pyplot.close(ax.figure)


def test_the_mean_that_is_plotted_beside_a_long_training_is_no_mean():
    losses = np.linspace(2.0, 1.0, 120)
    drawn = plots.plot_training(None, 1, losses.tolist(), [])
    line = next(line for line in drawn.get_lines() if "mean of 3" in line.get_label())
    assert np.allclose(line.get_ydata(), [losses[k : k + 3].mean() for k in range(118)])
    assert line.get_xdata()[0] == 3


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(plots, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'tinygrad-seq\[plot\]'"):
        flow_of(tg.nn.RNNCell(2, 3, rng=0)).chain("h").plot()
