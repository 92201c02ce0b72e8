"""What is said to whoever brings names and options along from PyTorch: an answer, and what it names exists."""

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.help.pytorch_names import CLASSES, MODULES, OPTIONS, TENSOR

x = tg.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True, name="x")
net = tg.nn.LSTM(2, 3, rng=0)
optimiser = tg.optim.Adam(net)
KNOWN = {"tg": tg, "np": np, "x": x, "rng": np.random.default_rng(0), "net": net, "optimiser": optimiser}


def named_in(answer: str) -> list[Any]:
    """What an answer names, in Python: AttributeError where there is no such thing."""
    found = []
    for path in re.findall(r"\b(?:tg|np|x|rng|net|optimiser)(?:\.[a-z_A-Z0-9]+)+", answer):
        first, *rest = path.split(".")
        thing: Any = KNOWN[first]
        for name in rest:
            thing = getattr(thing, name)
        found.append(thing)
    return found


@pytest.mark.parametrize("name", TENSOR)
def test_a_tensor_has_no_attribute_from_elsewhere_and_says_what_it_has(name: str) -> None:
    assert not hasattr(x, name) and not hasattr(tg.Tensor, name) and name not in dir(x)
    with pytest.raises(AttributeError, match=f"^Tensor has no '{name}': use ") as said:
        getattr(x, name)
    assert (said.value.name, said.value.obj) == (name, x)
    assert named_in(str(said.value)) or re.search(r"-x|list\(x\)|\bx( \W+ [yp]$| itself|\[)", str(said.value))


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in MODULES for name in MODULES[module]])
def test_a_module_has_no_name_from_elsewhere_and_says_what_it_has(module: str, name: str) -> None:
    home = {"tinygrad_seq": tg, "tinygrad_seq.nn": tg.nn, "tinygrad_seq.optim": tg.optim}[module]
    assert not hasattr(home, name)
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute '{name}': use ") as said:
        getattr(home, name)
    assert named_in(str(said.value)) or re.search("attributes|rng=|leading axes", str(said.value))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in CLASSES for name in CLASSES[kind]])
def test_a_module_and_an_optimiser_say_what_they_have(kind: str, name: str) -> None:
    thing = {"Module": net, "Optimiser": optimiser}[kind]
    assert not hasattr(thing, name)
    with pytest.raises(AttributeError, match=f"object has no attribute '{name}': use ") as said:
        getattr(thing, name)
    assert named_in(str(said.value)) or len(str(said.value).split(": use ")[1]) > 15


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tg.nn.LSTM(input_size=2, hidden_size=3), "input_size is m here.*hidden_size is d here"),
        (lambda: tg.nn.LSTM(2, 3, num_layers=2), "num_layers is layers= here"),
        (lambda: tg.nn.GRU(2, 3, batch_first=True), "batch_first is no option here: time always comes first"),
        (lambda: tg.nn.Linear(in_features=2, out_features=3), "in_features is m here.*out_features is d here"),
        (lambda: tg.nn.Embedding(5, 3, padding_idx=0), "padding_idx is padding= here"),
        (lambda: tg.nn.LayerNorm(normalized_shape=3), "normalized_shape is width here"),
        (lambda: tg.nn.LSTM(2, units=3), "units is d here"),
        (lambda: tg.optim.Adam(params=[x], lr=0.1), "params is parameters here"),
        (lambda: tg.optim.SGD([x], learning_rate=0.1), "learning_rate is lr= here"),
        (lambda: x.sum(dtype=np.float32), r"dtype is x\.astype\(dtype\), before"),
    ],
)
def test_options_of_other_libraries_are_told_their_names(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_an_answer_is_given_once_and_to_no_other_error() -> None:
    class Net(tg.nn.LSTM):
        def __init__(self, **options: Any) -> None:
            super().__init__(2, 3, **options)

    with pytest.raises(TypeError) as said:
        Net(num_layers=2)
    assert str(said.value).count("num_layers is layers= here") == 1

    class Own(tg.nn.Module):
        def __init__(self, hidden_size: int) -> None:
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        Own(hidden_size=3)
    assert all(answer.strip() for answer in OPTIONS.values())


def test_an_answer_that_names_nothing_would_be_seen() -> None:
    with pytest.raises(AttributeError, match="nowhere"):
        named_in("use tg.nowhere(x)")


def test_dir_lists_what_is_there_and_nothing_else() -> None:
    for thing in (tg.Tensor, x):
        assert {"sum", "data", "named"} <= set(dir(thing)) and not set(TENSOR) & set(dir(thing))
    for package in (tg, tg.nn, tg.optim, tg.data, tg.testing, tg.see):
        assert set(dir(package)) == set(package.__all__)
        assert all(hasattr(package, name) for name in dir(package))


def test_other_names_are_refused_as_python_refuses_them() -> None:
    with pytest.raises(AttributeError, match=r"^'Tensor' object has no attribute 'nowhere'$"):
        getattr(x, "nowhere")  # noqa: B009
    with pytest.raises(AttributeError, match=r"^module 'tinygrad_seq' has no attribute 'nowhere'$") as said:
        getattr(tg, "nowhere")  # noqa: B009
    assert (said.value.name, said.value.obj) == ("nowhere", tg)  # from which Python guesses what was meant


def test_copies_pickles_and_numpy_do_not_stumble_over_the_answers() -> None:
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert np.array_equal(y.data, x.data) and y.requires_grad and y.name == "x"
    assert np.asarray(x.detach()).tolist() == x.tolist()
    assert isinstance(np.tanh(x), tg.Tensor) and isinstance(np.ones(3) * x, tg.Tensor)
    assert {"sum", "data", "named"} <= set(dir(x))


@pytest.mark.parametrize(
    "call",
    [
        lambda: x.sum(dim=1),
        lambda: x.softmax(dim=-1),
        lambda: x.mean(dim=1),
        lambda: tg.concat([x, x], dim=1),
        lambda: tg.stack([x, x], dim=1),
        lambda: tg.split(x, 3, dim=1),
        lambda: tg.expand_dims(x, dim=0),
    ],
)
def test_an_axis_given_as_dim_is_told_its_name(call: Any) -> None:
    with pytest.raises(TypeError, match=r"argument 'dim'.*; dim is axis= here"):
        call()


def test_keepdim_is_told_its_name_and_other_wrong_options_are_not() -> None:
    for reduce in (x.max, x.var):
        with pytest.raises(TypeError, match=r"argument 'keepdim'.*; keepdim is keepdims= here"):
            reduce(axis=1, keepdim=True)
        with pytest.raises(TypeError, match=r"argument 'along'(?!.*here)"):
            reduce(along=1)
