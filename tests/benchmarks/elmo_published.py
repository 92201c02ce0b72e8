"""Published ELMo weights: what the released sizes need. Memory, seconds to load, words per second.

    OPENBLAS_NUM_THREADS=1 python tests/benchmarks/elmo_published.py

The weights are random, of the shapes that were released; the file is HDF5 where h5py is installed, .npz otherwise. A
batch is 32 sentences of 20 words, which are as unevenly frequent as those of a language. Words are counted per second
of CPU time on one thread, eagerly and by a replay of the forward pass (`tg.replay(bilm.layers, gradients=False)`) that
was recorded before. Each size runs in a process of its own, so that its memory is its own.
"""

import argparse
import importlib
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

import tinygrad_seq as tg
from tinygrad_seq.nn.elmo.published import places
from tinygrad_seq.nn.init import undrawn

SIZES = {"small": (1024, 128, 1), "medium": (2048, 256, 1), "original": (4096, 512, 2)}  # units, width, highways
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def options(size):
    hidden, width, highways = SIZES[size]
    lstm = {"dim": hidden, "projection_dim": width, "n_layers": 2, "cell_clip": 3, "proj_clip": 3}
    cnn = {"filters": FILTERS, "embedding": {"dim": 16}, "n_highway": highways, "activation": "relu"}
    return {
        "lstm": lstm | {"use_skip_connections": True},
        "char_cnn": cnn | {"n_characters": 262, "max_characters_per_token": 50},
    }


def write(size, path):
    """A file of random weights of this size."""
    hidden, width, highways = SIZES[size]
    with undrawn():
        encoder = tg.nn.CharEncoder(width, FILTERS, highways=highways, padded=True, dtype=np.float32)
        bilm = tg.nn.BiLM(encoder, None, hidden, projection=width, dtype=np.float32)
    rng, arrays = np.random.default_rng(0), {}
    for place in places(encoder, (bilm.forward, bilm.backward)):
        scale = np.float32(1 / np.sqrt(np.prod(place.shape[:-1]) or 1))
        arrays[place.name] = rng.standard_normal(place.shape, np.float32) * scale
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with importlib.import_module("h5py").File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array


def text(rng, sentences=32, tokens=20, words=5000):
    letters = np.array(list("etaoinshrdlu"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 11))) for _ in range(words)]
    frequency = 1 / np.arange(1, words + 1)
    drawn = rng.choice(words, (sentences, tokens), p=frequency / frequency.sum())
    return [[vocabulary[k] for k in row] for row in drawn]


def peak_memory():
    """The most that this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def measure(size, path, rounds):
    batch, megabytes = text(np.random.default_rng(1)), path.stat().st_size / 2**20
    for late in ("tinygrad_seq.nn.elmo", *["h5py"] * (path.suffix == ".hdf5")):
        importlib.import_module(late)
    with path.open("rb") as file:  # into the cache of the system
        while file.read(2**20):
            pass
    before = peak_memory()
    start = time.perf_counter()
    bilm = tg.nn.BiLM.published(options(size), path)
    seconds, peak = time.perf_counter() - start, peak_memory()
    frozen = bilm.freeze()
    step, (frame,) = tg.replay(frozen.layers, gradients=False), frozen.frames([batch])
    assert step(frame).data.tobytes() == frozen.layers(batch).data.tobytes()
    held, speeds = peak_memory(), [0.0, 0.0]
    for _ in range(rounds):
        for k, run in enumerate((lambda: frozen.layers(batch), lambda: step(frame))):
            start = time.process_time()
            run()
            speeds[k] = max(speeds[k], sum(map(len, batch)) / (time.process_time() - start))
    parameters = sum(x.size for x in bilm.tensors().values())
    print(
        f"{size:<10}{parameters / 1e6:>8.1f} M{megabytes:>8.0f} MiB{peak - before:>8.0f} MiB{seconds:>8.2f} s"
        f"{speeds[0]:>10,.0f}{speeds[1]:>12,.0f}{held - before:>10.0f} MiB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", default=list(SIZES), help=f"any of {', '.join(SIZES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(given.sizes[0], given.write)
    elif given.measure:
        measure(given.sizes[0], given.measure, given.rounds)
    else:
        heads = f"{'size':<10}{'weights':>10}{'file':>12}{'memory':>12}{'loading':>10}"
        print(heads + f"{'words/s':>10}{'replayed':>12}{'in all':>14}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for size in given.sizes:  # each in a process of its own, whose memory begins small
                path = Path(folder, size + (".hdf5" if importlib.util.find_spec("h5py") else ".npz"))
                for task in ("--write", "--measure"):
                    command = [sys.executable, __file__, size, task, path, "--rounds", str(given.rounds)]
                    subprocess.run(command, check=True)
                path.unlink()


if __name__ == "__main__":
    main()
