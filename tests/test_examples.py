"""The examples do what they say. Those that take minutes are run by .ci/run; here they only tell how they are used."""

import importlib.util
import os
import re
import runpy
import signal
import subprocess
import sys
from collections import Counter
from math import log2, prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_seq as tg

EXAMPLES = Path(__file__).parent.parent / "examples"
SLOW = {"char_lm", "elmo", "forget_bias", "many_workers", "survive", "truncation_costs", "who_survives", "word_senses"}
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


@pytest.mark.parametrize("name", ["survive", "forget_bias", "truncation_costs", "many_workers"])
def test_a_longer_example_says_how_it_is_used(name, run, capsys):
    with pytest.raises(SystemExit) as end:
        run(name, "--help")
    assert end.value.code == 0 and "usage:" in capsys.readouterr().out


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


# --- drawings


def test_the_drawings_and_the_page_are_written_where_they_are_wanted(run, tmp_path):
    assert "a page, explore.html, are in new" in run("draw_the_graph", "--into", "new")
    names = {"along_the_cell_alone.svg", "explore.html", "the_whole_gradient.svg", "truncated_after_step_2.svg"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
