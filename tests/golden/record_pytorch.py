"""Record what PyTorch computes, so that the tests can compare without having PyTorch.

Each file holds plain arrays under keys ``case/what``; README.md beside this script lists them.

    recurrent_KIND.npz  outputs, final states and every gradient of nn.RNN (rnn_tanh, rnn_relu),
                        nn.LSTM (lstm, and lstm_proj with proj_size) and nn.GRU (gru),
                        over layers, directions, lengths and dtypes
    optimisers.npz      SGD, Adam, AdamW, RMSprop, Adagrad: the parameters after each of 50 updates;
                        clip_grad_norm_: the norm and the gradients that it leaves
    losses.npz          losses, softmax family, layer norm, embedding: values and gradients

Recorded with torch 2.13.0 and numpy 2.4.6; each file repeats its own under the key ``versions``.
To record again, in an environment of its own (Python 3.11):

    pip install torch==2.13.0 numpy==2.4.6
    python tests/golden/record_pytorch.py

The data come from generators with fixed seeds, so recording twice gives the same files. They are
asymmetric, initial states are not zero, and every gradient starts from a random cotangent: no
error can hide in a symmetry, a zero or a sum.
"""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = Path(__file__).parent
VERSIONS = np.array([f"torch {torch.__version__}", f"numpy {np.__version__}"])
DTYPES = {"f64": np.float64, "f32": np.float32}

Arrays = dict[str, np.ndarray]
Fixed = np.ndarray | float | str  # an argument that gets no gradient


def generator(case: str) -> np.random.Generator:
    return np.random.default_rng(list(case.encode()))


def leaf(values: np.ndarray) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy().copy()


def under(case: str, arrays: Arrays) -> Arrays:
    return {f"{case}/{what}": values for what, values in arrays.items()}


def pulled_back(
    outputs: dict[str, torch.Tensor],
    inputs: dict[str, torch.Tensor],
    rng: np.random.Generator,
) -> Arrays:
    """Inputs, outputs, a random cotangent for each output, and the gradient of each input.

    The gradients are those of ``sum over outputs of (output * cotangent).sum()``.
    """
    cotangents = {
        name: torch.tensor(rng.normal(size=output.shape), dtype=output.dtype) for name, output in outputs.items()
    }
    gradients = torch.autograd.grad(list(outputs.values()), list(inputs.values()), list(cotangents.values()))
    return {
        **{name: array(tensor) for name, tensor in inputs.items()},
        **{name: array(tensor) for name, tensor in outputs.items()},
        **{f"cot/{name}": array(tensor) for name, tensor in cotangents.items()},
        **{f"grad/{name}": array(g) for name, g in zip(inputs, gradients, strict=True)},
    }


# --- Recurrent layers -----------------------------------------------------------------------------

T, B, M, D, PROJECTION = 5, 3, 3, 4, 2
LENGTHS = np.array([3, 5, 1])  # not sorted: the order of the rows has to survive the packing

KINDS = {
    "rnn_tanh": (nn.RNN, {"nonlinearity": "tanh"}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}),
    "lstm": (nn.LSTM, {}),
    "lstm_proj": (nn.LSTM, {"proj_size": PROJECTION}),
    "gru": (nn.GRU, {}),
}


def recurrent(kind: str) -> Arrays:
    """Every combination in float64, and the one that has everything in float32 too."""
    layer, options = KINDS[kind]
    recorded = {}
    combinations = list(product((1, 2), ("uni", "bi"), ("full", "packed"), ("f64",)))
    for layers, directions, lengths, dtype in [*combinations, (2, "bi", "packed", "f32")]:
        case = f"{kind}-{layers}layer-{directions}-{lengths}-{dtype}"
        net = layer(
            M,
            D,
            num_layers=layers,
            bidirectional=directions == "bi",
            dtype=torch.float64 if dtype == "f64" else torch.float32,
            **options,
        )
        recorded |= under(case, recurrent_case(case, net, packed=lengths == "packed"))
    return recorded


def recurrent_case(case: str, net: nn.RNNBase, *, packed: bool) -> Arrays:
    """One pass. At padding ``x`` is as random as anywhere, so that a leak would show."""
    rng = generator(case)
    dtype = DTYPES[case[-3:]]

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * rng.normal(size=shape)).astype(dtype)

    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.from_numpy(normal(*parameter.shape, scale=0.5)))

    rows = net.num_layers * (2 if net.bidirectional else 1)
    inputs = {
        "x": leaf(normal(T, B, M)),
        "h0": leaf(normal(rows, B, net.proj_size or D, scale=0.5)),
    }
    state = inputs["h0"]
    if isinstance(net, nn.LSTM):
        inputs["c0"] = leaf(normal(rows, B, D, scale=0.5))
        state = inputs["h0"], inputs["c0"]

    if packed:
        xs = pack_padded_sequence(inputs["x"], torch.from_numpy(LENGTHS), enforce_sorted=False)
        ys, final = net(xs, state)
        out, _ = pad_packed_sequence(ys, total_length=T)
    else:
        out, final = net(inputs["x"], state)

    finals = final if isinstance(net, nn.LSTM) else (final,)
    outputs = {"out": out, **dict(zip(("h_n", "c_n"), finals, strict=False))}
    recorded = pulled_back(outputs, dict(net.named_parameters()) | inputs, rng)
    return recorded | ({"lengths": LENGTHS} if packed else {})


# --- Optimisers and clipping ----------------------------------------------------------------------

UPDATES = 50
PARAMETERS = {"p0": (2, 3), "p1": (4,), "p2": ()}

OPTIMISERS = {
    "sgd-plain": (torch.optim.SGD, {"lr": 0.1}),
    "sgd-momentum": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "sgd-nesterov": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True}),
    "sgd-decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.2}),
    "sgd-nesterov-decay": (
        torch.optim.SGD,
        {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.2},
    ),
    "sgd-gaps": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
    "adam-default": (torch.optim.Adam, {}),
    "adam-decay": (torch.optim.Adam, {"lr": 0.02, "weight_decay": 0.3}),
    "adam-betas": (torch.optim.Adam, {"lr": 0.05, "betas": (0.7, 0.95), "eps": 1e-3}),
    "adam-gaps": (torch.optim.Adam, {"lr": 0.02}),
    "adamw-default": (torch.optim.AdamW, {}),
    "adamw-decay": (torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.3}),
    "adamw-betas": (
        torch.optim.AdamW,
        {"lr": 0.05, "betas": (0.7, 0.95), "eps": 1e-3, "weight_decay": 0.1},
    ),
    "adamw-gaps": (torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.3}),
    "rmsprop-default": (torch.optim.RMSprop, {}),
    "rmsprop-alpha": (torch.optim.RMSprop, {"lr": 0.05, "alpha": 0.7, "eps": 1e-3, "weight_decay": 0.2}),
    "rmsprop-momentum": (torch.optim.RMSprop, {"lr": 0.02, "momentum": 0.8}),
    "rmsprop-centered": (torch.optim.RMSprop, {"lr": 0.02, "alpha": 0.9, "centered": True}),
    "rmsprop-gaps": (torch.optim.RMSprop, {"lr": 0.02, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "adagrad-default": (torch.optim.Adagrad, {}),
    "adagrad-decay": (torch.optim.Adagrad, {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-3}),
    "adagrad-initial": (torch.optim.Adagrad, {"lr": 0.1, "initial_accumulator_value": 0.5}),
    "adagrad-gaps": (torch.optim.Adagrad, {"lr": 0.1, "weight_decay": 0.1}),
}

OPTIONS = (
    "lr",
    "momentum",
    "nesterov",
    "betas",
    "eps",
    "weight_decay",
    "alpha",
    "centered",
    "initial_accumulator_value",
)


def optimisers() -> Arrays:
    recorded = {}
    for case in OPTIMISERS:
        recorded |= under(case, trajectory(case))
    return recorded | clipping()


def trajectory(case: str) -> Arrays:
    """The parameters after each update, for gradients that do not depend on them.

    Where ``case`` has gaps, p1's gradient is None in the first three updates and in about a third
    of the later ones; those entries of ``given`` are False and of ``grads/p1`` NaN.
    """
    rng = generator(case)
    start = {name: rng.normal(size=shape) for name, shape in PARAMETERS.items()}
    grads = {name: rng.normal(size=(UPDATES, *shape)) for name, shape in PARAMETERS.items()}
    given = np.ones((UPDATES, len(PARAMETERS)), dtype=bool)
    if case.endswith("gaps"):
        given[:, 1] = (np.arange(UPDATES) >= 3) & (rng.random(UPDATES) < 2 / 3)
        grads["p1"][~given[:, 1]] = np.nan

    kind, options = OPTIMISERS[case]
    parameters = {name: leaf(values) for name, values in start.items()}
    optimiser = kind(parameters.values(), **options)
    after = {name: np.empty_like(values) for name, values in grads.items()}
    for update in range(UPDATES):
        for (name, parameter), is_given in zip(parameters.items(), given[update], strict=True):
            parameter.grad = torch.tensor(grads[name][update]) if is_given else None
        optimiser.step()
        for name, parameter in parameters.items():
            after[name][update] = array(parameter)

    used = {name: np.array(v) for name, v in optimiser.defaults.items() if name in OPTIONS}
    return {
        **under("option", used),
        **under("start", start),
        **under("grads", grads),
        "given": given,
        **under("after", after),
    }


def clipping() -> Arrays:
    """Every set of gradients and kind of norm, with a bound below the norm and one above.

    PyTorch scales by min(1, max_norm / (norm + 1e-6)).
    """
    rng = generator("clip")
    sets = {
        "several": [rng.normal(size=shape) for shape in PARAMETERS.values()],
        "uneven": [1e-6 * rng.normal(size=(3, 2)), 1e3 * rng.normal(size=(4,))],
        "single": [3.0 * rng.normal(size=(5,))],
        "zero": [np.zeros(3), np.zeros((2, 2))],
    }
    norms = {"two": 2.0, "inf": np.inf}
    bounds = {"below": 0.25, "above": 4.0}
    recorded = {}
    for kind, norm, bound in product(sets, norms, bounds):
        grads, p = sets[kind], norms[norm]
        size = np.linalg.norm(np.concatenate([g.ravel() for g in grads]), ord=p)
        max_norm = bounds[bound] * (size or 1.0)
        parameters = [leaf(np.zeros_like(g)) for g in grads]
        for parameter, g in zip(parameters, grads, strict=True):
            parameter.grad = torch.tensor(g)
        returned = clip_grad_norm_(parameters, max_norm, norm_type=p)
        after = [array(parameter.grad) for parameter in parameters]
        recorded |= under(
            f"clip-{kind}-{norm}-{bound}",
            {
                "p": np.array(p),
                "max_norm": np.array(max_norm),
                "norm": array(returned),
                **under("grads", {f"p{i}": g for i, g in enumerate(grads)}),
                **under("after", {f"p{i}": g for i, g in enumerate(after)}),
            },
        )
    return recorded


# --- Losses, the softmax family, layer norm, embedding --------------------------------------------

TAILS = np.array([-1000.0, -100.0, -50.0, -15.0, -1.5, -1e-3, 0.0, 0.25, 2.0, 17.0, 45.0, 1000.0])
FAR = np.array([[1000.0, 0.0, -1000.0], [-3.0, 40.0, 41.0], [1e-3, 0.0, -1e-3]])
MASKED = np.array([[0.5, -np.inf, 1.5, -0.25], [-np.inf, -np.inf, 2.0, 3.0]])


def losses() -> Arrays:
    """Every row of the table in both dtypes; the float32 data are the float64 ones, rounded."""
    recorded = {}
    for (name, function, inputs, fixed), suffix in product(loss_table(), DTYPES):
        case = f"{name}-{suffix}"
        tensors = {what: leaf(in_dtype(suffix, values)) for what, values in inputs.items()}
        constants = {what: in_dtype(suffix, values) for what, values in fixed.items()}
        value = function(*tensors.values(), **{what: argument(v) for what, v in constants.items()})
        recorded |= under(case, pulled_back({"value": value}, tensors, generator(case)))
        recorded |= under(case, {what: np.array(v) for what, v in constants.items()})
    return recorded


def in_dtype(suffix: str, value: Fixed) -> Fixed:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype(DTYPES[suffix])
    return value


def argument(value: Fixed) -> torch.Tensor | float | str:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def loss_table() -> Iterator[tuple[str, Callable[..., torch.Tensor], Arrays, dict[str, Fixed]]]:
    """Rows of: name, function, inputs that get a gradient, further arguments by keyword."""
    rng = generator("losses")

    def normal(*shape: int, scale: float = 2.0) -> np.ndarray:
        return scale * rng.normal(size=shape)

    for reduction in ("mean", "sum", "none"):
        name, how = f"cross_entropy-{reduction}", {"reduction": reduction}
        logits = {"logits": normal(5, 4)}
        labels, with_gaps = np.array([2, 0, 3, 0, 1]), np.array([2, -100, 3, 0, -100])
        yield name, F.cross_entropy, logits, {"target": labels, **how}
        ignoring = {"target": labels, "ignore_index": 0, **how}
        yield f"{name}-ignore_0", F.cross_entropy, logits, ignoring
        ignoring = {"target": with_gaps, "ignore_index": -100, **how}
        yield f"{name}-ignore_negative", F.cross_entropy, logits, ignoring

        name = f"bce_with_logits-{reduction}"
        target = rng.random((3, 4))
        target[0] = [0, 1, 1, 0]
        fixed = {"target": target, **how}
        yield name, F.binary_cross_entropy_with_logits, {"logits": normal(3, 4)}, fixed

        inputs = {"prediction": normal(3, 4), "target": normal(3, 4)}
        yield f"mse-{reduction}", F.mse_loss, inputs, how

    extreme = {"logits": np.array([[0, 1000, -1000], [0, 1, -np.inf], [-50, 60, 0.5]])}
    fixed = {"target": np.array([0, 1, 2]), "reduction": "none"}
    yield "cross_entropy-none-extreme", F.cross_entropy, extreme, fixed
    both = {"logits": np.stack([TAILS, TAILS])}
    fixed = {"target": np.repeat([[0.0], [1.0]], len(TAILS), axis=1), "reduction": "none"}
    yield "bce_with_logits-none-tails", F.binary_cross_entropy_with_logits, both, fixed

    for name, function in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
        yield f"{name}-last", function, {"x": normal(2, 3, 4)}, {"dim": -1}
        yield f"{name}-first", function, {"x": normal(2, 3, 4)}, {"dim": 0}
        yield f"{name}-tails", function, {"x": FAR}, {"dim": -1}
    yield "softmax-masked", F.softmax, {"x": MASKED}, {"dim": -1}

    yield "logsigmoid", F.logsigmoid, {"x": normal(3, 4)}, {}
    yield "logsigmoid-tails", F.logsigmoid, {"x": TAILS}, {}
    # Above its threshold PyTorch returns x itself: exact from 40 on, but not from its default, 20.
    yield "softplus", F.softplus, {"x": normal(3, 4)}, {"threshold": 40.0}
    yield "softplus-tails", F.softplus, {"x": TAILS}, {"threshold": 40.0}

    for name, eps in (("layer_norm", 1e-5), ("layer_norm-eps", 1e-2)):
        inputs = {"x": 1.0 + normal(2, 3, 5), "weight": normal(5), "bias": normal(5)}
        yield name, layer_norm, inputs, {"eps": eps}

    ids = np.array([[1, 4, 1, 0], [2, 2, 5, 1], [0, 4, 1, 2]])  # 3 is never used
    yield "embedding", embedding, {"table": normal(6, 3)}, {"ids": ids}
    yield "embedding-padding", embedding, {"table": normal(6, 3)}, {"ids": ids, "padding_idx": 0}


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def embedding(table: torch.Tensor, ids: torch.Tensor, padding_idx: int | None = None) -> torch.Tensor:
    return F.embedding(ids, table, padding_idx)


def save(name: str, recorded: Arrays) -> None:
    path = HERE / f"{name}.npz"
    np.savez_compressed(path, allow_pickle=False, versions=VERSIONS, **recorded)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    torch.set_num_threads(1)
    for kind in KINDS:
        save(f"recurrent_{kind}", recurrent(kind))
    save("optimisers", optimisers())
    save("losses", losses())


if __name__ == "__main__":
    main()
