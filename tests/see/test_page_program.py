"""The program of a page, run by node, computes what Python computes: values and credit, with cuts and held tensors."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.engine import ops
from tinygrad_seq.see import page_program
from tinygrad_seq.see.page_program import PageProgram

SCRIPT = Path(page_program.__file__).with_name("page_program.js").read_text("utf-8")
DRIVER = """
const { data, cases } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const program = new Program(data), plain = (x) => Array.from(x, (v) => (Number.isFinite(v) ? v : String(v)));
console.log(JSON.stringify(cases.map(({ set, cuts, held }) => {
  for (const [t, numbers] of set) program.set(t, Float64Array.from(numbers, Number));
  program.run(program.forward);
  const seeds = new Map([[program.result, Float64Array.of(1)]]);
  const credit = program.sweep(seeds, crossing(program, cuts, new Set(held)));
  return program.tensors.map((_, t) => [plain(program.value(t)), credit.has(t) ? plain(credit.get(t)) : null]);
})));
"""


def in_node(program, cases):
    """For each case (leaves set, cuts, held): the value and the credit of each tensor of the program."""
    if shutil.which("node") is None:
        pytest.skip("no node was found, which runs the page's JavaScript here")
    asked = [
        {
            "set": [[program.place[x], np.asarray(v, float).ravel().tolist()] for x, v in leaves.items()],
            "cuts": [before for before, _ in cuts],
            "held": [program.place[x] for x in held],
        }
        for leaves, cuts, held in cases
    ]
    sent = json.dumps({"data": program.data(), "cases": asked})
    ran = subprocess.run(["node", "-e", SCRIPT + DRIVER], input=sent, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def numbers(found):
    return np.array([float(v.replace("Infinity", "inf")) if isinstance(v, str) else v for v in found])


def agree(found, tape, flow, tolerance=1e-9, absolute=1e-15):
    for (value, credit), x in zip(found, PageProgram(tape).tensors, strict=True):
        np.testing.assert_allclose(numbers(value), x.detach().data.ravel(), tolerance, absolute, err_msg=x.label())
        assert (credit is None) == (x not in flow._arrived), x.label()
        if credit is not None:
            np.testing.assert_allclose(numbers(credit), flow[x].ravel(), tolerance, absolute, err_msg=x.label())


A = np.array([[0.3, -1.2, 0.7], [1.1, 0.2, -0.4]])
B = np.array([[0.5, 0.9, 1.3], [0.4, 1.7, 0.8]])
EVERY = {
    "add": lambda a, b: a + b[0],
    "subtract": lambda a, b: a[:, :1] - b,
    "multiply": lambda a, b: a * b[1] * 2.0,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: b**a + b**3 + b**0,
    "maximum": lambda a, b: tg.maximum(a, b - 0.5),
    "minimum": lambda a, b: tg.minimum(a, 0.25) + tg.minimum(a, b),
    "where": lambda a, b: tg.where(A > 0, a, b),
    "negative": lambda a, b: -a,
    "exp": lambda a, b: tg.exp(a) + tg.expm1(b),
    "log": lambda a, b: tg.log(b) + tg.log1p(b),
    "sqrt": lambda a, b: tg.sqrt(b) + tg.square(a),
    "abs": lambda a, b: tg.abs(a) + tg.sign(a) * b,
    "sin": lambda a, b: tg.sin(a) * tg.cos(b),
    "tanh": lambda a, b: tg.tanh(a) + tg.sigmoid(b * 40.0),
    "logsigmoid": lambda a, b: tg.logsigmoid(a) + tg.relu(a) * b,
    "sum": lambda a, b: a.sum(0) + b.sum(1, keepdims=True) + a.sum(),
    "clip": lambda a, b: tg.clip(a, -0.5, 0.5) * tg.clip(b, None, tg.sin(a)) + tg.clip(a, 0.0),
    "max": lambda a, b: a.max(0) + tg.min(b, 1, keepdims=True) + b.max(),
    "norm": lambda a, b: tg.norm(a, 1) + tg.norm(b),
    "logsumexp": lambda a, b: tg.logsumexp(a * 300.0, 1, keepdims=True) + tg.logsumexp(b, 0),
    "softmax": lambda a, b: tg.softmax(a, 0) * tg.log_softmax(b),
    "cumsum": lambda a, b: tg.cumsum(a, 0) * tg.cumsum(b, 1),
    "moves": lambda a, b: (a.T.reshape(2, 3) * tg.expand_dims(b, 1)[:, 0, ::-1]).swapaxes(0, 1) * b.squeeze().T,
    "gather": lambda a, b: a[:, [2, 0, 2]] * b[[1, 1], :],
    "embedding": lambda a, b: tg.embedding(a, np.array([1, 0, 1])) * b[0],
    "concat": lambda a, b: tg.concat([a, b], 1) * tg.stack([a, b], 1).reshape(2, 6),
    "matmul": lambda a, b: a @ b.T + b[0] @ a[1] + a @ b[1],
    "batches": lambda a, b: tg.stack([a, b]) @ b.T @ tg.stack([a[0], b[1]], 1)[:2].reshape(1, 2, 2),
    "einsum": lambda a, b: tg.einsum("ij,kj->ik", a, b) + tg.einsum("ij,ij->j", a, b)[:2],
    "broadcast_to": lambda a, b: tg.broadcast_to(a[0], (2, 3)) * b,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_operation_computes_on_the_page_what_it_computes_here(dtype):
    a, b = (tg.Tensor(v, requires_grad=True, dtype=dtype, name=n) for v, n in ((A, "a"), (B, "b")))
    parts = []
    for k, operation in enumerate(EVERY.values()):
        y = operation(a, b)
        parts.append((y * np.cos(np.arange(y.size) + k).astype(dtype).reshape(y.shape)).sum())
    loss = tg.stack(parts).sum()
    tape = tg.Tape(loss)
    program = PageProgram(tape)
    assert program.narrow is (dtype == np.float32)
    (found,) = in_node(program, [({}, [], [])])
    agree(found, tape, tape.flow(), *((1e-9,) if dtype == np.float64 else (2e-3, 1e-4)))
    forward = {operation for operation in page_program.KNOWN if operation.rules or operation.every}
    used = {t.record.operation for t in tape}
    without_gradient = {ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal}
    assert forward - used <= without_gradient | {ops.assemble, ops.scatter, ops.detach, ops.astype}


XS, LENGTHS = np.random.default_rng(0).standard_normal((4, 3, 2)), np.array([4, 2, 3])
CLASSES = np.array([[0, 1, 3], [2, 3, 1], [1, 1, 0], [3, 2, 0]])
NETS = {
    "GRU, reset after": lambda: tg.nn.GRU(2, 3, reset="after", rng=0)(XS)[0],
    "two directions, rows of different lengths": lambda: tg.nn.LSTM(2, 2, layers=2, bidirectional=True, rng=0)(
        XS, lengths=LENGTHS
    )[0],
    "projection and clipping": lambda: tg.nn.LSTM(2, 4, projection=2, cell_clip=0.3, projection_clip=0.2, rng=0)(XS)[0],
    "dropout": lambda: tg.nn.RNN(2, 3, layers=2, dropout=0.5, activation="relu", rng=0)(XS)[0],
    "classes": lambda: tg.nn.cross_entropy(tg.nn.Linear(2, 4, rng=0)(tg.Tensor(XS)), CLASSES, ignore_index=1),
    "words": lambda: tg.nn.RNN(2, 3, rng=0)(tg.nn.Embedding(4, 2, rng=0)(CLASSES))[0],
    "layer norm": lambda: tg.nn.LayerNorm(2)(tg.nn.Linear(2, 2, rng=0)(tg.Tensor(XS))),
}


@pytest.mark.parametrize("name", NETS)
def test_networks_compute_on_the_page_what_they_compute_here(name):
    tape = tg.Tape((NETS[name]() ** 2).sum())
    (found,) = in_node(PageProgram(tape), [({}, [], [])])
    agree(found, tape, tape.flow(), 1e-9, 1e-12)


def machine(values, dtype=np.float64):
    cell = tg.nn.LSTMCell(2, 3, rng=3, dtype=dtype)
    cell.A.data = (cell.A.data * values["scale"]).astype(dtype)
    x = tg.Tensor(np.asarray(values["x"], dtype), requires_grad=True, name="x")
    _, state = tg.nn.unroll(cell, tg.stack([x, x * 0.5, -x, x]))
    return tg.Tape(((state.h - 0.3) ** 2).sum().named("loss"))


def test_a_grid_of_knobs_cuts_and_holds_agrees_with_python():
    grid = [{"scale": s, "x": [u, 0.4]} for s in (0.0, 0.7, 3.0) for u in (-2.0, 0.1)]
    program = PageProgram(machine(grid[2]))
    cases, flows = [], []
    for values in grid:
        tape = machine(values)
        there = dict(zip(PageProgram(tape).tensors, program.tensors, strict=True))
        leaves = {there[x]: x.data for x in tape.leaves if x.requires_grad}
        for cut in ([], [(2, 3)], [(1, 2), (3, 4)]):
            for held in ([], [x for x in tape.find("h")[:-1] if x.requires_grad]):
                cases.append((leaves, cut, [there[x] for x in held]))
                flows.append((tape, tape.flow(cut=cut, holding=held)))
    for found, (tape, flow) in zip(in_node(program, cases), flows, strict=True):
        agree(found, tape, flow)


def test_the_value_of_a_detached_state_follows_the_knobs_and_its_credit_stops():
    def truncated(w):
        w, h = tg.Tensor(w, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
        states = []
        for t in (1, 2, 3):
            with tg.step(t):
                h = (w * h.detach()).named("h")
            states.append(h)
        return tg.Tape(tg.stack(states).sum())

    program, tape = PageProgram(truncated(0.5)), truncated(0.9)
    (found,) = in_node(program, [({program.tensors[0]: [0.9]}, [], [])])
    agree(found, tape, tape.flow())


def test_what_is_not_finite_is_computed_as_numpy_does():
    x = tg.Tensor([0.0, np.inf, np.nan, -0.0], requires_grad=True, name="x")
    with np.errstate(all="ignore"):
        tape = tg.Tape((tg.exp(x) / x * np.array([1.0, -np.inf, 2.0, 1.0])).sum())
        (found,) = in_node(PageProgram(tape), [({}, [], [])])
        agree(found, tape, tape.flow())


def test_an_operation_that_the_page_does_not_know_is_named():
    softsign = tg.primitive(lambda x: x / (1 + abs(x)), lambda g, y, x: g / (1 + abs(x)) ** 2, name="softsign")
    with pytest.raises(TypeError, match=r"does not know the operation 'softsign', which made s\. .*tanh"):
        PageProgram(tg.Tape(softsign(tg.Tensor(1.0, requires_grad=True)).named("s") * 1.0))
    like = tg.primitive(np.tanh, lambda g, y, x: 0 * g)  # of the same name: it has another rule
    assert like.__name__ == "tanh"
    with pytest.raises(TypeError, match="does not know the operation 'tanh'"):
        PageProgram(tg.Tape(like(tg.Tensor(1.0, requires_grad=True))))


def test_a_page_computes_one_number():
    x = tg.Tensor([1.0, 2.0], requires_grad=True, name="x")
    with pytest.raises(ValueError, match=r"computes one loss, a single number"):
        PageProgram(tg.Tape(x * x))
    w = tg.Tensor(1.0, requires_grad=True, name="w")
    loss = w * w
    w.data = np.array(2.0)
    with pytest.raises(RuntimeError, match=r"w was given new data after"):
        PageProgram(tg.Tape(loss))


def test_two_hundred_steps_are_written_in_maps_of_a_few_numbers():
    xs, _ = tg.nn.LSTM(2, 3, rng=0)(np.ones((200, 1, 2)))
    data = PageProgram(tg.Tape((xs * xs).sum())).data()
    assert all(kind == "strides" and len(rest) <= 9 for kind, *rest in data["maps"])
    assert len(json.dumps(data)) < 1_000_000
