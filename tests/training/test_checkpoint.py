"""Checkpoints: whole or not there, strict, without pickle; and a run that goes on bitwise."""

import array as array_module
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict, deque
from enum import IntFlag
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg

MARK = "tinygrad_seq format"
# The folder that a test writes to may serve all the examples of a property.
properties = settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])


class Net(tg.nn.Module):
    """Something of everything: a stack with dropout of both kinds, tied weights, a scalar, integers."""

    def __init__(self, seed=0, d=3):
        rng = np.random.default_rng(seed)
        self.recurrent = tg.nn.LSTM(2, d, layers=2, dropout=0.3, recurrent_dropout=0.2, rng=rng)
        self.readout = tg.nn.Linear(d, 1, rng=rng)
        self.tied = [self.readout.W]
        self.scale = tg.Tensor(1.5, requires_grad=True)
        self.ids = tg.Tensor([1, 2])

    def loss(self, xs, targets, state):
        outputs, state = self.recurrent(xs, state)
        return tg.nn.mse(self.readout(outputs[-1]) * self.scale, targets), state


class Run:
    """A training run with all that one can have to carry on: state, dropout, optimiser, drawn data, a counter."""

    def __init__(self, seed=0):
        self.model = Net(seed)
        self.optimiser = tg.optim.Adam(self.model.parameters(), lr=tg.optim.cosine(0.1, 10))
        self.state = self.model.recurrent.initial_state((4,))
        self.rng = np.random.default_rng(seed + 1)
        self.update = 0

    def parts(self):
        return {name: getattr(self, name) for name in ("model", "optimiser", "state", "rng", "update")}

    def train(self, updates):
        while self.update < updates:
            loss, state = self.model.loss(*tg.data.adding_problem(self.rng, 5, 4), self.state)
            loss.backward()
            self.state = tg.detach(state)
            self.optimiser.step()
            self.optimiser.zero_grad()
            self.update += 1
        return self

    def resume(self, path):
        loaded = tg.load(path, **self.parts())
        self.state, self.update = loaded["state"], loaded["update"]
        return self


def contents(run, folder):
    """Every bit of a run, as its checkpoint holds it."""
    path = folder / "contents.npz"
    tg.save(path, **run.parts())
    return path.read_bytes()


def archive(path, members, **kwargs):
    with zipfile.ZipFile(path, "w", **kwargs) as file:
        for name, data in members.items():
            file.writestr(name, data)


def npy(array, allow_pickle=False):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=allow_pickle)
    return stream.getvalue()


# --- what is saved comes back


@pytest.mark.parametrize("stopped", range(6))
def test_a_resumed_run_goes_on_bitwise_like_one_that_never_stopped(stopped, tmp_path):
    whole = contents(Run().train(6), tmp_path)
    tg.save(tmp_path / "run.npz", **Run().train(stopped).parts())
    resumed = Run(seed=99).resume(tmp_path / "run.npz")
    assert resumed.update == stopped
    assert contents(resumed.train(6), tmp_path) == whole


def test_the_same_run_writes_the_same_bytes_and_another_seed_others(tmp_path):
    assert contents(Run().train(2), tmp_path) == contents(Run().train(2), tmp_path)
    assert contents(Run().train(2), tmp_path) != contents(Run(1).train(2), tmp_path)


values = st.recursive(
    st.builds(
        lambda seed, shape, dtype: (100 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype),
        st.integers(0, 99),
        st.sampled_from([(), (0,), (3,), (2, 0), (2, 3)]),
        st.sampled_from([np.float64, np.float32, np.float16, np.int32, np.uint8, np.bool_, np.complex128, ">f8"]),
    )
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text("añ→/.\n", max_size=5)
    | st.booleans()
    | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b c", "Ω"]), inner)
        | st.tuples(inner, inner).map(lambda pair: tg.nn.LSTMState(*pair))
    ),
    max_leaves=8,
)


def same(a, b):
    if isinstance(a, dict):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    a, b = (x.data if isinstance(x, tg.Tensor) else x for x in (a, b))
    return (
        type(a) is type(b)
        and np.asarray(a).dtype == np.asarray(b).dtype
        and np.array_equal(a, b) | (repr(a) == repr(b))
    )


def zeroed(value):
    if isinstance(value, dict):
        return {key: zeroed(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(*map(zeroed, value)) if hasattr(value, "_fields") else type(value)(map(zeroed, value))
    return np.zeros_like(value) if isinstance(value, np.ndarray) else None if value is None else type(value)()


@properties
@given(values)
def test_values_of_every_kind_come_back_with_their_structure_type_and_bits(tmp_path, value):
    tg.save(tmp_path / "value.npz", value=value)
    assert same(tg.load(tmp_path / "value.npz", value=zeroed(value))["value"], value)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_a_generator_goes_on_where_it_was(kind, tmp_path):
    rng = np.random.Generator(kind(3))
    rng.integers(0, 9, 5, dtype=np.int32), rng.standard_normal(7)
    tg.save(tmp_path / "rng.npz", rng=rng)
    expected = rng.integers(0, 2**31, 9, dtype=np.int32), rng.standard_normal(50)
    other = np.random.Generator(kind(4))
    tg.load(tmp_path / "rng.npz", rng=other)
    assert np.array_equal(expected[0], other.integers(0, 2**31, 9, dtype=np.int32))
    assert np.array_equal(expected[1], other.standard_normal(50))


def test_a_leaf_is_filled_in_place_and_a_state_comes_as_a_constant_with_its_name(tmp_path):
    w, h = tg.Tensor([1.0, 2.0], requires_grad=True), (tg.Tensor([3.0], requires_grad=True) * 2).named("h")
    tg.save(tmp_path / "run.npz", w=w, h=h)
    other = tg.Tensor([0.0, 0.0], requires_grad=True)
    loaded = tg.load(tmp_path / "run.npz", w=other, h=tg.Tensor([0.0], name="h"))
    assert loaded["w"] is other and other.data.tolist() == [1.0, 2.0]
    assert loaded["h"].data.tolist() == [6.0] and loaded["h"].name == "h" and not loaded["h"].requires_grad


def test_the_weights_alone_can_be_taken_from_a_checkpoint_and_numpy_opens_it_too(tmp_path):
    run = Run().train(2)
    tg.save(tmp_path / "run.npz", **run.parts())
    net = Net(seed=5)
    net.load_state_dict(tg.load(tmp_path / "run.npz")["model"])
    for name, array in run.model.state_dict().items():
        assert np.array_equal(net.state_dict()[name], array)
    assert tg.load(tmp_path / "run.npz")["update"] == 2
    with np.load(tmp_path / "run.npz") as file:
        assert np.array_equal(file["model/readout.W"], run.model.readout.W.data)


def test_a_saved_state_does_not_change_when_training_goes_on(tmp_path):
    run = Run().train(1)
    state = run.model.state_dict()
    kept = {name: array.copy() for name, array in state.items()}
    run.train(3)
    assert all(np.array_equal(state[name], kept[name]) for name in kept)
    assert not np.array_equal(run.model.state_dict()["readout.W"], kept["readout.W"])


def test_a_copy_of_a_model_has_gradients_of_its_own_keeps_ties_and_drops_the_graph():
    import copy

    net = Net()
    net.loss(*tg.data.adding_problem(0, 5, 4), None)[0].backward()
    other = copy.deepcopy(net)
    other.readout.W.grad[...] = 7
    assert not (net.readout.W.grad == 7).any()
    assert other.tied[0] is other.readout.W and other.readout.W is not net.readout.W
    h = (net.scale * 2).named("h")
    assert copy.deepcopy(h).operation is None and copy.deepcopy(h).item() == 3.0


# --- strict


@pytest.mark.parametrize(
    ("saved", "wanted"),
    [((1,), (32,)), ((1, 3), (4, 3)), ((32,), ()), ((2, 3), (3, 2))],
)
@pytest.mark.parametrize("kind", ["leaf", "module", "array", "state"])
def test_no_shape_is_spread_or_reshaped_to_fit(saved, wanted, kind, tmp_path):
    class Weight(tg.nn.Module):
        def __init__(self, shape):
            self.w = tg.Tensor(np.ones(shape), requires_grad=True)

    make = {
        "leaf": lambda shape: tg.Tensor(np.ones(shape), requires_grad=True),
        "module": Weight,
        "array": np.ones,
        "state": lambda shape: [tg.Tensor(np.ones(shape))],
    }[kind]
    tg.save(tmp_path / "w.npz", w=make(saved))
    path = {"module": "w: .* w", "state": "w/0"}.get(kind, "w")
    with pytest.raises(ValueError) as caught:
        tg.load(tmp_path / "w.npz", w=make(wanted))
    caught.match(f"{path}: needs ")
    for shape in (saved, wanted):
        assert str(shape) in str(caught.value)


def test_everything_that_differs_is_named_at_once_and_nothing_is_loaded(tmp_path):
    run = Run().train(2)
    tg.save(tmp_path / "run.npz", **run.parts(), surplus=1)
    other = Run(seed=7).train(1)
    other.model.readout.b = None
    other.model.extra = tg.Tensor(0.0)
    before = contents(other, tmp_path)
    with pytest.raises(ValueError) as caught:
        tg.load(tmp_path / "run.npz", **(other.parts() | {"update": 0.0, "epoch": 3}))
    for fault in ("missing extra", "unknown readout.b", "update: needs () float64, got () int64", "missing epoch",
                  "unknown surplus"):  # fmt: skip
        assert fault in str(caught.value)
    assert contents(other, tmp_path) == before


@pytest.mark.parametrize("part", ["model", "optimiser", "state", "rng", "update"])
def test_a_part_that_is_not_asked_for_or_not_there_is_named(part, tmp_path):
    parts = Run().train(1).parts()
    tg.save(tmp_path / "run.npz", **parts)
    others = Run(1).parts()
    one = others.pop(part)
    with pytest.raises(ValueError, match=f"unknown {part}"):
        tg.load(tmp_path / "run.npz", **others)
    tg.save(tmp_path / "less.npz", **{name: value for name, value in parts.items() if name != part})
    with pytest.raises(ValueError, match=f"missing ({part}|updates)"):
        tg.load(tmp_path / "less.npz", **others, **{part: one})


def test_generators_of_another_kind_are_refused(tmp_path):
    rng, other = np.random.default_rng(0), np.random.Generator(np.random.MT19937(0))
    tg.save(tmp_path / "rng.npz", rng=rng)
    with pytest.raises(ValueError, match="rng: no state of a MT19937"):
        tg.load(tmp_path / "rng.npz", rng=other)
    tg.save(tmp_path / "rng.npz", rng="{}")
    with pytest.raises(ValueError, match="rng: no state of a PCG64"):
        tg.load(tmp_path / "rng.npz", rng=rng)


def test_tied_weights_that_differ_in_the_file_are_refused(tmp_path):
    net = Net()
    untied = Net()
    untied.tied = [tg.Tensor(net.readout.W.data + 1, requires_grad=True)]
    tg.save(tmp_path / "net.npz", model=untied)
    with pytest.raises(ValueError, match=r"tied.0 is tied to readout.W, but the values differ"):
        tg.load(tmp_path / "net.npz", model=net)


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({}, ValueError, "nothing to save"),
        ({"f": len}, TypeError, "f is a builtin_function_or_method; a checkpoint holds modules"),
        ({"state": [0, {"a": object()}]}, TypeError, "state/1/a is a object"),
        ({"n": 2**70}, TypeError, "n is a int"),
        ({"a/b": 1}, ValueError, "called by a Python name, got 'a/b'"),
        ({"d": {1: 0.0, "1": 1.0}}, ValueError, "two entries would be called d/1"),
    ],
)
def test_what_cannot_be_saved_is_named_and_nothing_is_written(parts, error, message, tmp_path):
    with pytest.raises(error, match=message):
        tg.save(tmp_path / "x.npz", **parts)
    assert list(tmp_path.iterdir()) == []


# --- files that are not right


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "whole.npz"
    tg.save(path, w=np.arange(12.0).reshape(3, 4), n=3)
    return path


def refused(path):
    """Whether a damaged copy of the checkpoint is refused; if it is not, it must say the same."""
    try:
        loaded = tg.load(path, w=np.zeros((3, 4)), n=0)
    except ValueError:
        return True
    assert np.array_equal(loaded["w"], np.arange(12.0).reshape(3, 4)) and loaded["n"] == 3
    return False


@properties
@given(data=st.data())
def test_a_truncated_file_is_refused(data, checkpoint):
    whole = checkpoint.read_bytes()
    damaged = checkpoint.with_name("damaged.npz")
    damaged.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ValueError, match="damaged"):
        tg.load(damaged)


@settings(properties, max_examples=5 * properties.max_examples)
@given(data=st.data())
def test_a_file_with_changed_bytes_is_refused_or_says_the_same_as_before(data, checkpoint):
    whole = bytearray(checkpoint.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = checkpoint.with_name("damaged.npz")
    damaged.write_bytes(whole)
    refused(damaged)


@properties
@given(st.binary(max_size=300))
def test_any_other_file_is_refused(tmp_path, data):
    (tmp_path / "damaged.npz").write_bytes(data)
    assert refused(tmp_path / "damaged.npz")


class Bomb:
    """What a pickle can do to who loads it."""

    def __reduce__(self):
        return exec, ("raise SystemExit('code in a checkpoint was run')",)


def test_object_arrays_are_refused_and_their_code_does_not_run(tmp_path):
    with pytest.raises(SystemExit):
        pickle.loads(pickle.dumps(Bomb()))
    archive(tmp_path / "bomb.npz", {f"{MARK}.npy": npy(1), "w.npy": npy(np.array([Bomb()], object), allow_pickle=True)})
    for parts in ({}, {"w": np.zeros(1)}):
        with pytest.raises(ValueError, match="damaged or no checkpoint: Object arrays cannot be loaded"):
            tg.load(tmp_path / "bomb.npz", **parts)


@pytest.mark.parametrize("shape", [(10**15,), (2**62, 4), (10**6, 10**6, 10**6)])
def test_an_entry_that_claims_more_than_it_holds_is_refused(shape, tmp_path):
    header = npy(np.zeros(1)).partition(b"\n")[0]
    lying = header.replace(b"(1,)", str(shape).encode()).rstrip()
    lying = lying.ljust(len(header)) + b"\n" + bytes(8)
    archive(tmp_path / "damaged.npz", {f"{MARK}.npy": npy(1), "w.npy": lying})
    with pytest.raises(ValueError, match="damaged"):
        tg.load(tmp_path / "damaged.npz")


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused_before_it_does(tmp_path):
    archive(tmp_path / "bomb.npz", {"w.npy": npy(np.zeros(10**6))}, compression=zipfile.ZIP_DEFLATED)
    assert (tmp_path / "bomb.npz").stat().st_size < 20_000
    with pytest.raises(ValueError, match="claim to be larger than the file"):
        tg.load(tmp_path / "bomb.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_that_stand_twice_or_go_on_too_long_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as file:
        for name in (MARK, "w", "w"):
            file.writestr(f"{name}.npy", npy(1))
    with pytest.raises(ValueError, match="w occurs twice"):
        tg.load(tmp_path / "twice.npz")
    archive(tmp_path / "long.npz", {f"{MARK}.npy": npy(1), "w.npy": npy(1.0) + b"more"})
    with pytest.raises(ValueError, match="w is longer than its shape says"):
        tg.load(tmp_path / "long.npz")


def test_a_newer_format_and_a_file_without_one_are_refused(tmp_path):
    archive(tmp_path / "new.npz", {f"{MARK}.npy": npy(3), "w.npy": npy(1.0)})
    with pytest.raises(ValueError, match=r"newer tinygrad_seq, in format 3; this one reads up to format 2: upgrade"):
        tg.load(tmp_path / "new.npz", w=0.0)
    np.savez(tmp_path / "other.npz", w=np.zeros(3))
    with pytest.raises(ValueError, match=r"no checkpoint of tg.save: it carries no format number"):
        tg.load(tmp_path / "other.npz", w=np.zeros(3))


def test_a_file_that_is_not_there_is_said_to_be_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        tg.load(tmp_path / "none.npz")


# --- whole or not there


def test_a_full_disk_leaves_the_old_checkpoint_and_no_litter(checkpoint):
    before = checkpoint.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"the checkpoint was not saved .*; what stood there before is untouched"):
            tg.save(checkpoint, w=np.ones(10**5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoint.read_bytes() == before
    assert [path.name for path in checkpoint.parent.iterdir()] == [checkpoint.name]


@pytest.mark.parametrize("stage", ["fsync", "replace"])
def test_an_error_at_any_stage_leaves_the_old_checkpoint_and_no_litter(stage, checkpoint, monkeypatch):
    before = checkpoint.read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, stage, fails)
    with pytest.raises(OSError, match="No space left on device") as caught:
        tg.save(checkpoint, w=1.0)
    assert caught.value.errno == 28
    monkeypatch.undo()
    assert checkpoint.read_bytes() == before
    assert [path.name for path in checkpoint.parent.iterdir()] == [checkpoint.name]


@pytest.mark.parametrize("place", ["none/run.npz", "whole.npz/run.npz"])
def test_a_folder_that_cannot_be_written_to_is_an_error_that_names_the_path(place, checkpoint):
    with pytest.raises(OSError, match=f"the checkpoint was not saved.*{place}"):
        tg.save(checkpoint.parent / place, w=1.0)


def test_a_link_goes_on_pointing_to_the_checkpoint(checkpoint):
    link = checkpoint.with_name("link.npz")
    link.symlink_to(checkpoint)
    tg.save(link, n=4)
    assert link.is_symlink() and tg.load(checkpoint, n=0) == {"n": 4}


# Writes checkpoint after checkpoint in a child, which says through a pipe what it has written; kills it at some moment
# and looks at what stands there.
KILLS = """
import os, random, signal, sys, time
import numpy as np
import tinygrad_seq as tg

path, kills, version, caught_writing = sys.argv[1], int(sys.argv[2]), 0, 0

def write():
    tg.save(path, version=version, arrays=[np.full(5_000, version)] * 5)

times = []
for _ in range(10):
    start = time.perf_counter()
    write()
    times.append(time.perf_counter() - start)
random.seed(0)
for kill in range(10 * kills):
    if kill >= kills and min(version, caught_writing) > 20:  # a busy machine needs more of them
        break
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, bytes(8))  # it runs: on a busy machine that may take longer than a checkpoint
        while True:
            version += 1
            write()
            os.write(tell, version.to_bytes(8, "big"))
    os.close(tell)
    os.read(told, 8)
    time.sleep(random.uniform(0, 2 * sorted(times)[5]))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with open(told, "rb") as pipe:
        said = pipe.read()
    written = int.from_bytes(said[-8:], "big") if said else version
    found = tg.load(path, version=0, arrays=[np.zeros(5_000, int)] * 5)
    assert all((array == found["version"]).all() for array in found["arrays"])
    version = found["version"]
    assert written <= version <= written + 1, (written, version)
    for name in os.listdir(os.path.dirname(path)):
        if name.endswith(".tmp"):
            caught_writing += 1
            os.unlink(os.path.join(os.path.dirname(path), name))
print(version, caught_writing)
"""


def test_a_process_killed_at_any_moment_leaves_a_whole_checkpoint_and_loses_none_that_was_written(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", KILLS, str(tmp_path / "run.npz"), "200"],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(tg.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    versions, caught_writing = map(int, result.stdout.split())
    assert versions > 20 and caught_writing > 20  # it did write, and it was killed while it wrote


@pytest.mark.parametrize("call", [tg.save, tg.load])
@pytest.mark.parametrize("order", [("run.npz", "model"), ("model", "run.npz"), ("model",)])
def test_parts_without_a_name_are_refused_with_the_right_call(call, order, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [tg.nn.Linear(1, 1, rng=0) if argument == "model" else argument for argument in order]
    kinds = ", ".join(type(argument).__name__ for argument in arguments)
    with pytest.raises(TypeError, match=rf'tg\.{call.__name__}\("run\.npz", model=net, .*; got {kinds}$'):
        call(*arguments)
    assert not list(tmp_path.iterdir())


def test_parts_that_were_saved_and_are_not_asked_for_come_with_the_way_to_leave_them_out(tmp_path):
    tg.save(tmp_path / "run.npz", w=1.0, update=7)
    with pytest.raises(ValueError, match=r"unknown update\. .*tg\.load\(path\)\[part\]"):
        tg.load(tmp_path / "run.npz", w=0.0)
    with pytest.raises(ValueError, match=r"missing v$"):
        tg.load(tmp_path / "run.npz", w=0.0, update=0, v=0.0)


# --- special files, modes, and what would come back as something else


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
@pytest.mark.parametrize("by", ["itself", "a link"])
def test_where_no_file_stands_none_is_put_and_none_is_read(kind, by, tmp_path):
    special = Path(os.devnull) if kind == "device" else tmp_path / "special"
    {"folder": special.mkdir, "pipe": lambda: os.mkfifo(special), "device": lambda: None}[kind]()
    path = special
    if by == "a link":
        path = tmp_path / "link"
        path.symlink_to(special)
    before, listed = special.stat(), sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match=f"not saved: there is a {kind} and no file"):
        tg.save(path, w=1.0)
    with pytest.raises(ValueError, match=f"is a {kind}, and no checkpoint"):  # and nobody waits for the pipe
        tg.load(path, w=1.0)
    after = special.stat()
    assert (before.st_mode, before.st_ino) == (after.st_mode, after.st_ino) and sorted(tmp_path.iterdir()) == listed


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_a_file_keeps_its_mode(mode, tmp_path):
    path, new, umask = tmp_path / "run.npz", tmp_path / "new.npz", os.umask(0o022)
    try:
        tg.save(path, w=1.0)
        path.chmod(mode)
        tg.save(path, w=2.0)
        tg.save(new, w=2.0)
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == mode and tg.load(path, w=0.0) == {"w": 2.0}
    assert new.stat().st_mode & 0o777 == 0o644


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        np.ma.array([1, 99, 3], mask=[0, 1, 0]), np.rec.array([(1.0,)]), range(3), deque([1.0]),
        {1.0}, Counter("aab"), array_module.array("d", [1.0]), memoryview(b"ab"), b"ab",
        "ends with NUL\0", Text("a"), IntFlag("F", "a b").a,
        np.datetime64("2020-01-01"), np.array([b"ab"]), type("List", (list,), {})([1.0]), iter([1.0]), 2**64,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_would_come_back_as_something_else_is_refused(value, tmp_path):
    with pytest.raises(TypeError, match="a checkpoint holds modules"):
        tg.save(tmp_path / "x.npz", part={"inner": value})
    assert not list(tmp_path.iterdir())
    tg.save(tmp_path / "x.npz", part={"inner": 1.0})
    with pytest.raises(TypeError, match="a checkpoint holds modules"):
        tg.load(tmp_path / "x.npz", part={"inner": value})


def test_ordered_dicts_and_mapped_arrays_and_wide_integers_come_back(tmp_path):
    mapped = np.memmap(tmp_path / "array", np.float64, "w+", shape=(3,))
    part = OrderedDict(b=1, a=np.float32(2.0), c=mapped, d=2**63)
    tg.save(tmp_path / "x.npz", part=part)
    loaded = tg.load(tmp_path / "x.npz", part=OrderedDict(part, d=0))["part"]
    assert type(loaded) is OrderedDict and list(loaded) == list("bacd") and loaded["d"] == 2**63
    assert type(loaded["a"]) is np.float32 and loaded["c"].tolist() == [0.0] * 3


@pytest.mark.parametrize("key", ["a\0b", "\ud800", "n" * 70_000])
def test_names_that_a_file_cannot_hold_are_refused(key, tmp_path):
    with pytest.raises(ValueError, match="no entry of a file can be called"):
        tg.save(tmp_path / "x.npz", part={key: 1.0})
    assert not list(tmp_path.iterdir())


def test_another_byte_order_is_the_same_checkpoint(tmp_path):
    parts = {"model": tg.nn.Linear(2, 3, rng=0), "w": tg.Tensor([1.0], requires_grad=True), "state": np.ones(3)}
    tg.save(tmp_path / "x.npz", **parts)
    others = {
        "model": tg.nn.Linear(2, 3, rng=1, dtype=">f8"),
        "w": tg.Tensor([0.0], requires_grad=True, dtype=">f8"),
        "state": np.zeros(3, ">f8"),
    }
    loaded = tg.load(tmp_path / "x.npz", **others)
    assert np.array_equal(others["model"].W.data, parts["model"].W.data) and others["w"].item() == 1.0
    assert loaded["state"].dtype == ">f8" and loaded["state"].tolist() == [1.0] * 3
    tg.save(tmp_path / "x.npz", **others)
    assert tg.load(tmp_path / "x.npz", **parts)["state"].dtype.isnative


# --- nothing is touched, and nothing is lost


@pytest.mark.parametrize("order", [("net", "state"), ("state", "net")])
def test_a_refused_load_touches_nothing_whatever_the_order_of_the_parts(order, tmp_path):
    net, other = tg.nn.Linear(2, 3, rng=0), tg.nn.Linear(2, 3, rng=1)
    w, rng = tg.Tensor([1.0], requires_grad=True), np.random.default_rng(0)
    tg.save(tmp_path / "x.npz", net=net, state=[np.ones(2), {"a": 1.0}], w=w, rng=rng)
    before, drawn = other.state_dict(), np.random.default_rng(5).random()
    w.data, rng = [2.0], np.random.default_rng(5)
    wanted = {"net": other, "state": [np.ones(2), {"b": 1.0}]}
    with pytest.raises(ValueError, match="missing state/1/b; unknown state/1/a"):
        tg.load(tmp_path / "x.npz", w=w, rng=rng, **{part: wanted[part] for part in order})
    assert all(np.array_equal(before[name], x) for name, x in other.state_dict().items())
    assert w.data.tolist() == [2.0] and rng.random() == drawn


def test_no_change_of_one_byte_in_the_list_of_entries_loses_one(tmp_path):
    path = tmp_path / "x.npz"
    tg.save(path, a=1.0, b=np.arange(3), c={"d": 1, "e": "text"})
    whole, expected = path.read_bytes(), tg.load(path)
    rng = np.random.default_rng(0)
    for place in range(whole.index(b"PK\1\2"), len(whole)):
        for bits in rng.integers(1, 256, 2):
            damaged = bytearray(whole)
            damaged[place] ^= int(bits)
            path.write_bytes(damaged)
            try:
                loaded = tg.load(path)
            except ValueError:
                continue
            assert repr(loaded) == repr(expected)


def test_more_entries_than_the_end_record_can_count_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 3)
    tg.save(tmp_path / "x.npz", a=[1.0] * 10)
    assert tg.load(tmp_path / "x.npz", a=[0.0] * 10) == {"a": [1.0] * 10}


def with_state(rng, change):
    state = json.loads(json.dumps(rng.bit_generator.state, default=np.ndarray.tolist))
    change(state)
    return np.random.Generator(type(rng.bit_generator)(9)), json.dumps(state)


HOSTILE = [
    (np.random.MT19937, lambda s: s["state"].update(pos=10**6)),
    (np.random.MT19937, lambda s: s["state"].update(pos=-1)),
    (np.random.MT19937, lambda s: s["state"].update(pos=1.5)),
    (np.random.MT19937, lambda s: s["state"]["key"].pop()),
    (np.random.MT19937, lambda s: s["state"]["key"].__setitem__(3, 2**32)),
    (np.random.MT19937, lambda s: s["state"].update(key=[[0] * 624])),
    (np.random.MT19937, lambda s: s["state"].update(more=1)),
    (np.random.Philox, lambda s: s.update(buffer_pos=-(10**8))),
    (np.random.Philox, lambda s: s.update(buffer_pos=5)),
    (np.random.Philox, lambda s: s["state"].update(counter=[1, 2])),
    (np.random.SFC64, lambda s: s["state"].update(state=[1, 2, 3])),
    (np.random.SFC64, lambda s: s["state"].update(state="text")),
    (np.random.PCG64, lambda s: s["state"].update(state=2**128)),
    (np.random.PCG64, lambda s: s["state"].update(inc=-1)),
    (np.random.PCG64, lambda s: s.update(uinteger=2**32)),
    (np.random.PCG64, lambda s: s.update(has_uint32=True)),
    (np.random.PCG64, lambda s: s.pop("state")),
    (np.random.PCG64DXSM, lambda s: s.update(state=None)),
]


@pytest.mark.parametrize(("kind", "change"), HOSTILE)
def test_a_hostile_state_of_a_generator_is_refused_and_not_taken_up(kind, change, tmp_path):
    rng, text = with_state(np.random.Generator(kind(3)), change)
    before = json.dumps(rng.bit_generator.state, default=np.ndarray.tolist)
    tg.save(tmp_path / "x.npz", rng=text)
    with pytest.raises(ValueError, match=f"rng: no state of a {kind.__name__}"):
        tg.load(tmp_path / "x.npz", rng=rng)
    assert json.dumps(rng.bit_generator.state, default=np.ndarray.tolist) == before


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a":' * 20_000, "1" * 200_000, "NaN", "null", "", "1e999"])
def test_hostile_json_is_refused(text, tmp_path):
    tg.save(tmp_path / "x.npz", rng=text)
    with pytest.raises(ValueError, match="rng: no state of a PCG64"):
        tg.load(tmp_path / "x.npz", rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"w.npy": npy(1.0), "w/a.npy": npy(1.0)}, "w is an entry, and w/a another one below it"),
        ({"w/a.npy": npy(1.0), "w": npy(1.0)}, "w is an entry, and w/a another one below it"),
        ({"w.npy": npy(np.zeros(1, "M8[s]"))}, "w holds no numbers and no text"),
        ({"w.npy": npy(np.zeros(1, "f8,i4"))}, "w holds no numbers and no text"),
        ({f"{MARK}.npy": npy(0)}, "its format is 0"),
        ({f"{MARK}.npy": npy([1, 1])}, "its format is"),
        ({f"{MARK}.npy": npy("1")}, "its format is 1"),
    ],
)
def test_entries_that_no_checkpoint_has_are_refused(members, told, tmp_path):
    archive(tmp_path / "x.npz", {f"{MARK}.npy": npy(2)} | members)
    for parts in ({}, {"w": 1.0}):
        with pytest.raises(ValueError, match=f"is damaged or no checkpoint: {told}"):
            tg.load(tmp_path / "x.npz", **parts)


def test_a_name_with_nul_in_a_file_is_refused(tmp_path):
    archive(tmp_path / "x.npz", {f"{MARK}.npy": npy(2), "wx.npy": npy(1.0)})
    path = tmp_path / "x.npz"
    path.write_bytes(path.read_bytes().replace(b"wx.npy", b"w\0.npy"))
    with pytest.raises(ValueError, match=r"is no name of an entry"):
        tg.load(path)


# Files damaged in every way, loaded in a child: an end of the interpreter would be seen too. By hand with more of them:
# python tests/training/fuzz_checkpoints.py 3000
def test_no_damaged_file_ends_the_interpreter_loses_an_entry_or_leaves_parts_half_loaded(tmp_path):
    script = Path(__file__).with_name("fuzz_checkpoints.py")
    result = subprocess.run(
        [sys.executable, str(script), "150", str(tmp_path)],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(tg.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


# --- what goes along with the weights


def bilm_over(words, seed=0, **options):
    vocabulary = tg.nn.Vocabulary(words)
    encoder = tg.nn.WordEncoder(vocabulary, 3, rng=seed)
    return tg.nn.BiLM(encoder, vocabulary, hidden=3, layers=1, rng=seed, **options)


def test_weights_do_not_go_with_other_words_or_another_order_of_them(tmp_path):
    bilm, other = bilm_over(["cat", "dog"]), bilm_over(["dog", "cat"], 1)
    tg.save(tmp_path / "x.npz", bilm=bilm)
    before = other.state_dict()
    with pytest.raises(ValueError, match=r"bilm: its vocabulary has other words, or the same in another order"):
        tg.load(tmp_path / "x.npz", bilm=other)
    assert all(np.array_equal(before[name], x) for name, x in other.state_dict().items())
    same = bilm_over(["cat", "dog"], 1)
    tg.load(tmp_path / "x.npz", bilm=same)
    assert np.array_equal(same.softmax.W.data, bilm.softmax.W.data)
    words = bytes(tg.load(tmp_path / "x.npz")["bilm:vocabularies"]["0.vocabulary"]).decode()
    assert tg.nn.Vocabulary.read(words).entries[3:] == ["cat", "dog"]


def test_the_states_that_a_model_carries_go_along_and_must_fit(tmp_path):
    batch = [["cat"], ["dog", "cat"]]
    bilm, other = (bilm_over(["cat", "dog"], seed, stateful=True) for seed in (0, 1))
    bilm.loss(batch)
    tg.save(tmp_path / "x.npz", bilm=bilm)
    tg.load(tmp_path / "x.npz", bilm=other)
    assert other.loss(batch).item() == bilm.loss(batch).item()
    bilm.reset()
    tg.save(tmp_path / "y.npz", bilm=bilm)
    tg.load(tmp_path / "y.npz", bilm=other)
    assert other.loss([["cat"]]).item() == bilm.loss([["cat"]]).item()  # and another number of rows
    with pytest.raises(ValueError, match=r"a biLM with stateful=False carries no states"):
        tg.load(tmp_path / "x.npz", bilm=bilm_over(["cat", "dog"]))
    entries = {f"{name}.npy": npy(array) for name, array in np.load(tmp_path / "x.npz").items()}
    state = next(name for name in entries if ":carried/" in name)
    before = other.carried()
    for change, told in (({}, r"the carried states \[.*\] of part 0 are not whole"),
                         ({state: npy(np.zeros((2, 9)))}, "no states of this biLM: .: needs")):  # fmt: skip
        archive(tmp_path / "z.npz", {name: data for name, data in entries.items() if name != state} | change)
        with pytest.raises(ValueError, match=f"bilm: .*{told}"):
            tg.load(tmp_path / "z.npz", bilm=other)
    assert all(np.array_equal(a, b) for a, b in zip(before, other.carried(), strict=True))


def test_a_checkpoint_of_version_0_1_is_loaded():
    """Written by tinygrad_seq 0.1.0: Adam's memory by place, no vocabularies."""
    net = tg.nn.GRU(2, 3, layers=2, dropout=0.5, rng=1)
    readout = tg.nn.Linear(3, 1, rng=1)
    optimiser = tg.optim.Adam({"net": net, "readout": readout}, lr=0.1)
    bilm = bilm_over(["cat", "dog"], 1)
    loaded = tg.load(
        Path(__file__).parents[1] / "golden" / "checkpoint_0_1.npz", net=net, readout=readout, optimiser=optimiser,
        bilm=bilm, state=net.initial_state((2,)), update=0,
    )  # fmt: skip
    assert loaded["update"] == optimiser.updates == 2
    assert {memory["t"] for memory in optimiser.memory.values()} == {2}
    assert optimiser.memory["readout.W"]["m"].shape == (3, 1)
    with np.load(Path(__file__).parents[1] / "golden" / "checkpoint_0_1.npz") as file:
        assert np.array_equal(readout.W.data, file["readout/W"]) and readout.W.data.any()
