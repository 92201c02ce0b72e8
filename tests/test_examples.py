"""The examples do what they say. Those that take minutes are run by .ci/run; here they only tell how they are used."""

import importlib.util
import io
import os
import re
import runpy
import signal
import subprocess
import sys
from collections import Counter
from math import log2, prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_seq as tg

EXAMPLES = Path(__file__).parent.parent / "examples"
SLOW = {
    "char_lm", "elmo", "elmo_features", "forget_bias", "many_workers", "reverse", "survive", "truncation_costs",
    "who_survives", "word_senses",
}  # fmt: skip
# Enough to learn from in a second.
TEXT = "she sells sea shells by the sea shore; the shells she sells are sea shells, i am sure.\n" * 60
SMALL = ["--hidden", "24", "--chunk", "8", "--batch", "8"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example in an empty folder and returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in SLOW))
def test_an_example_runs_and_its_own_numbers_hold(name, run):
    assert run(name)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("name", ["gru_conventions", "lstm_by_hand", "one_unit_machines", "your_own_op"])
def test_an_example_prints_to_a_terminal_that_lacks_its_signs(name, encoding, monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=encoding))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    sys.stdout.flush()
    assert printed.getvalue().decode(encoding)


@pytest.mark.parametrize("name", ["survive", "forget_bias", "truncation_costs", "many_workers"])
def test_a_longer_example_says_how_it_is_used(name, run, capsys):
    with pytest.raises(SystemExit) as end:
        run(name, "--help")
    assert end.value.code == 0 and "usage:" in capsys.readouterr().out


def test_the_chart_of_who_survives_shows_each_kind_as_it_is_drawn(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="charts need the extra `plot`")
    example = runpy.run_path(str(EXAMPLES / "who_survives.py"), run_name="who_survives")
    example["born"].__globals__.update(T=40, STEPS=20, ROWS=8)
    xs = 0.5 * example["np"].random.default_rng(1).standard_normal((40, 8, 8))
    panels = [("born", example["born"]([0.9, 2.0], [1.0], xs)), ("trained", example["trained"](2, 3.0, length=5))]
    figure = example["draw"](panels)
    for axis in figure.axes:
        lines = {(line.get_color(), line.get_linestyle()) for line in axis.lines}
        handles = {text.get_text(): line for text, line in zip(*legend_of(axis), strict=True)}
        assert {(line.get_color(), line.get_linestyle()) for line in handles.values()} - {("black", ":")} <= lines
        assert all(line.get_linestyle() == "-" for name, line in handles.items() if "LSTM" in name or "GRU" in name)
        assert len(axis.collections) == len(axis.lines)  # a band for each
    assert "at birth" in handles
    figure.canvas.draw()
    pyplot.close("all")


def legend_of(axis):
    return axis.get_legend().get_texts(), axis.get_legend().get_lines()


# --- the character model


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return ["--text", str(path)]


def bits(printed):
    """The table at the end, as a dict of name -> bits per character."""
    rows = printed.partition("Held-out bits per character\n")[2].splitlines()
    return {name: float(number) for number, name in (row.split(maxsplit=1) for row in rows)}


def numbers(printed):
    """What was printed, without the speeds."""
    return re.sub(r"bits per character .*left|[\d.]+ times as fast", "", printed)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_char_lm_learns_what_counting_pairs_cannot_know(cell, run, text):
    printed = run("char_lm", *text, *SMALL, "--cell", cell, "--updates", "200", "--rate", "0.02")
    table = bits(printed)
    assert table[f"this {cell}"] < 0.8 * table["counts of pairs (bigram, add one)"]
    assert "update   200 of 200" in printed and "characters per second" in printed and "0 s left" in printed


def test_char_lm_prints_the_same_numbers_for_the_same_seed_and_others_for_another(run, text):
    arguments = [*text, *SMALL, "--layers", "2", "--updates", "20"]
    once = run("char_lm", *arguments, "--seed", "3")
    assert numbers(once) == numbers(run("char_lm", *arguments, "--seed", "3"))
    anew = run("char_lm", *arguments, "--seed", "3", "--no-replay")
    assert numbers(anew) == re.sub("The graph was recorded once.*\n", "", numbers(once))
    assert bits(once) != bits(run("char_lm", *arguments, "--seed", "4"))


def test_char_lm_stopped_by_ctrl_c_keeps_what_was_learnt_and_goes_on_bitwise(run, text, monkeypatch):
    arguments = [*text, *SMALL, "--checkpoint", "run.ckpt.npz", "--updates", "60"]
    whole = run("char_lm", *arguments)
    step = tg.optim.Optimiser.step

    def interrupted(optimiser):
        step(optimiser)
        if optimiser.updates == 33:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(tg.optim.Optimiser, "step", interrupted)
        printed = run("char_lm", *arguments)
    assert "stopped after 33 updates; this is what was learnt so far" in printed
    assert "A sample" in printed and bits(printed) != bits(whole)
    resumed = run("char_lm", *arguments, "--resume")
    assert resumed.partition("A sample")[2] == whole.partition("A sample")[2] != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "none.txt"], "char_lm: .*No such file.*none.txt"),
        (["--text", "short.txt"], "char_lm: text_chunks got 9 characters, .* needs a str of at least 2049"),
        (["--text", "binary.bin"], "char_lm: 'utf-8' codec can't decode"),
        (["--checkpoint", "none.npz", "--resume"], "char_lm: .*No such file.*none.npz"),
    ],
)
def test_char_lm_says_in_a_line_what_is_wrong(arguments, message, run, tmp_path):
    (tmp_path / "short.txt").write_text("0123456789")
    (tmp_path / "binary.bin").write_bytes(b"\xff\xfe\xfa" * 9)
    with pytest.raises(SystemExit, match=message):
        run("char_lm", *arguments)


@given(st.text("ab c", min_size=12, max_size=60), st.integers(5, 10))
def test_char_lm_counts_as_the_formulas_say(text, held_out):
    split, vocabulary = len(text) - held_out, "".join(sorted(set(text)))
    count_models = runpy.run_path(str(EXAMPLES / "char_lm.py"))["count_models"]

    def after(context):
        """The characters that stand after this context in the training part."""
        ends = (k for k in range(len(context), split) if text[k - len(context) : k] == context)
        return Counter(text[k] for k in ends)

    def witten_bell(c, context):
        shorter = witten_bell(c, context[1:]) if context else 1 / len(vocabulary)
        seen = after(context)
        return (seen[c] + len(seen) * shorter) / (seen.total() + len(seen)) if seen else shorter

    places = range(split, len(text))
    pairs = (((seen := after(text[k - 1]))[text[k]] + 1) / (seen.total() + len(vocabulary)) for k in places)
    expected = {"counts of pairs (bigram, add one)": prod(pairs)}
    for n in range(6):
        expected[f"counts after {n} characters (Witten-Bell)"] = prod(
            witten_bell(text[k], text[max(k - n, 0) : k]) for k in places
        )
    found = count_models(text, split, vocabulary)
    for name, measured in found.items():
        assert measured == pytest.approx(-log2(expected[name]) / held_out)
    assert min(found.values()) <= min(-log2(p) / held_out for name, p in expected.items() if "Witten" in name) + 1e-9


# --- many workers


def test_many_workers_trains_through_a_killed_worker_or_names_the_extra_that_it_lacks(tmp_path):
    command = [sys.executable, str(EXAMPLES / "many_workers.py"), "--updates", "12"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stderr
    if importlib.util.find_spec("distributed") is None:
        assert result.stdout == 'many_workers needs the extra "dask": pip install "tinygrad-seq[dask]"\n'
    else:
        assert "their gradients add up to the whole batch's" in result.stdout
        assert "a worker was killed, its shard computed by another" in result.stdout
        assert "times as fast as one" in result.stdout


# --- published ELMo weights


def test_elmo_exports_a_model_whose_features_another_script_writes(run, tmp_path):
    lines = ["we train models for the train", "the train arrived", "for models we train", "a train for the models"]
    (tmp_path / "corpus.txt").write_text("\n\n".join(f"{line.capitalize()}." for line in lines * 3))
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    assert "the same features again, bit for bit" in run(
        "elmo", "--corpus", "corpus.txt", "--export", "m", "--epochs", "1"
    )
    (weights,) = (tmp_path / "m").glob("weights.*")
    given = ["--options", "m/options.json", "--weights", str(weights), "--text", "text.txt"]
    printed = run("elmo_features", *given, "--word", "train", "--batch", "3")
    assert "4 sentences, 18 words" in printed and "words per CPU second" in printed
    assert "[train]" in printed and "by layer 2" in printed
    bilm, text = tg.nn.BiLM.published("m/options.json", weights), [line.split() for line in lines]
    with np.load("features.npz") as file:
        assert file["word"].tolist() == [word for words in text for word in words]
        for k, words in enumerate(text):
            mine = file["layers"][:, file["sentence"] == k]
            np.testing.assert_allclose(mine, bilm.layers([words]).data[:, :, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--options", "none.json", "--weights", "none.hdf5"], "elmo_features: .*No such file.*none"),
        (["--options", "empty.json", "--weights", "empty.json"], "elmo_features: empty.json is neither HDF5 nor .npz"),
    ],
)
def test_elmo_features_says_in_a_line_what_is_wrong(arguments, message, run, tmp_path):
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(SystemExit, match=message):
        run("elmo_features", *arguments)


# --- drawings


def test_the_drawings_and_the_page_are_written_where_they_are_wanted(run, tmp_path):
    assert "a page, explore.html, are in new" in run("draw_the_graph", "--into", "new")
    names = {"along_the_cell_alone.svg", "explore.html", "the_whole_gradient.svg", "truncated_after_step_2.svg"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names


# --- on data of one's own


def test_names_reads_a_csv_with_other_columns_and_says_what_it_passes_over(run, tmp_path):
    lines = [f"{(k % 2 and 'abab') or 'baba'}{'xyz'[k % 3]},{'one' if k % 2 else 'two'},{k}" for k in range(60)]
    (tmp_path / "own.csv").write_text(
        "\ufeffname,origin,more\n" + "\n".join(lines) + "\n,one,1\n\nabab,,2\nab\n", "utf-8"
    )
    own = ["--data", "own.csv", "--text", "name", "--label", "origin"]
    printed = run("names", *own, "--updates", "100", "--hidden", "8")
    assert printed.startswith("3 of 63 lines lack a text or a label")
    error = float(re.search(r"read in order, both ways\s+([\d.]+)%", printed)[1])
    assert error < 20 and "one" in printed and "two" in printed


def test_tagger_and_reverse_read_data_of_ones_own(run, tmp_path):
    sentences = ["the x DET\nfish x NOUN\n", "we PRON\nfish VERB\n"] * 12
    (tmp_path / "own.txt").write_text("\n\n" + "\n\n\n".join(sentences), "utf-8")
    printed = run("tagger", "--data", "own.txt", "--updates", "60", "--hidden", "8")
    assert re.search(r"read from both ends\s+0.0%", printed) and re.search("fish/(NOUN|VERB)", printed)
    (tmp_path / "own.txt").write_text(
        "".join(f"{w}\t{w[::-1]}\n\n" for w in ("ab", "ba", "abc", "cba", "ca") * 6), "utf-8"
    )
    printed = run("reverse", "--data", "own.txt", "--updates", "150", "--units", "16")
    assert re.search(r"greedy\s+0.0%", printed) and re.search(r"beam search, 3 kept\s+0.0%", printed)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("names", b"a,b\nx,y\n", r"own has no column 'text' and no column 'label'; its first line names 'a', 'b'"),
        ("names", b"", "own has no column .* its first line names nothing"),
        ("names", b"text,label\nx,y\n", "1 whole lines with 1 labels: that is too little"),
        ("names", b"text,label\nM\xfcller,de\n", "not written in utf-8-sig .*: try --encoding latin-1"),
        ("names", None, "own cannot be read: No such file"),
        ("tagger", b"the DET\nfish\n", "line 2 of own has a word and no tag: 'fish'"),
        ("tagger", b"the DET\n", "1 sentences: that is too little"),
        ("tagger", b"\xff\xfe DET\n", "not written in utf-8-sig"),
        ("tagger", None, "cannot be read"),
        ("reverse", b"ab\tba\nabc\n", "an input, a TAB and an output; 1 are not, the first is 'abc'"),
        ("reverse", b"ab\tba\n", "1 lines: that is too little"),
        ("reverse", b"\xff\t\xfe\n", "not written in utf-8-sig"),
        ("reverse", None, "cannot be read"),
    ],
)
def test_data_that_an_example_cannot_read_is_refused_with_the_reason(name, content, told, run, tmp_path):
    if content is not None:
        (tmp_path / "own").write_bytes(content)
    with pytest.raises(SystemExit) as end:
        run(name, "--data", "own")
    assert re.search(told, str(end.value.code))
