"""What the recurrent layers cost beyond their bare operations, what lengths cost, and how both grow with time.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python tests/benchmarks/recurrent.py

Forward and backward pass in float32. The contestants run in turn, round after round; the tables show the median of
the processor's time per step, and the median ratio to the first contestant of the same round, which holds when the
machine's speed drifts. The memory of the last table is read from /proc, so that table needs Linux.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from interleaved import ratio, rounds

import tinygrad_seq as tg
from tinygrad_seq import nn

SIZES = {"small": (20, 1, 4, 8), "medium": (50, 16, 16, 32), "large": (100, 32, 64, 128)}
LONG = (10_000, 30_000, 100_000)


def lstm(cell, x, h, c):
    """Join, one product, split, cell, hidden: the step as one would write it."""
    d = cell.d
    a = tg.concat([x, h], -1) @ cell.A + cell.b
    s, g = a[..., : 3 * d].sigmoid(), a[..., 3 * d :].tanh()
    c = s[..., :d] * c + s[..., d : 2 * d] * g
    return s[..., 2 * d :] * c.tanh(), c


def gru(cell, x, h, _):
    d = cell.d
    s = (tg.concat([x, h], -1) @ cell.A + cell.b).sigmoid()
    r, z = s[..., :d], s[..., d:]
    g = (x @ cell.W + (r * h) @ cell.U + cell.b_g).tanh()
    return z * h + (1 - z) * g, None


def rnn(cell, x, h, _):
    return (tg.concat([x, h], -1) @ cell.A + cell.b).tanh(), None


BARE = {"LSTM": (nn.LSTM, lstm), "GRU": (nn.GRU, gru), "RNN": (nn.RNN, rnn)}


def passes(loss_of, parameters):
    """One forward and backward pass, as a function that returns the loss."""

    def run():
        for x in parameters:
            x.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss.item()

    return run


def compared(title, contestants, steps, seconds):
    losses = [run() for run in contestants.values()]
    times = rounds(contestants, seconds, clock=time.process_time)
    first = next(iter(times.values()))
    print(f"\n{title}, {len(first)} rounds\n{'':32} {'per step':>10} {'ratio':>7}")
    for name, taken in times.items():
        print(f"{name:32} {statistics.median(taken) / steps * 1e6:7.1f} µs {ratio(taken, first):7.3f}")
    return losses


def layer_against_bare(size, seconds):
    T, B, m, d = SIZES[size]
    rng = np.random.default_rng(0)
    xs = tg.Tensor(rng.standard_normal((T, B, m)).astype(np.float32))
    cotangent = rng.standard_normal((T, B, d)).astype(np.float32)
    for name, (make, step) in BARE.items():
        net = make(m, d, rng=0, dtype=np.float32)
        cell = net.cells[0][0]

        def bare(cell=cell, step=step):
            h = c = tg.Tensor(np.zeros((B, d), np.float32))
            outputs = []
            for t in range(T):
                with tg.step(t + 1):
                    h, c = step(cell, xs[t], h, c)
                outputs.append(h)
            return (tg.stack(outputs) * cotangent).sum()

        contestants = {
            "bare operations": passes(bare, net.parameters()),
            "the layer": passes(lambda net=net: (net(xs)[0] * cotangent).sum(), net.parameters()),
        }
        one, other = compared(f"{name}, {size}: T={T} B={B} m={m} d={d}", contestants, T, seconds)
        assert one == other, (one, other)


def lengths_against_none(size, seconds):
    T, B, m, d = SIZES[size]
    B = max(B, 4)
    rng = np.random.default_rng(0)
    net = nn.LSTM(m, d, layers=2, bidirectional=True, rng=0, dtype=np.float32)
    xs = tg.Tensor(rng.standard_normal((T, B, m)).astype(np.float32))
    cotangent = rng.standard_normal((T, B, 2 * d)).astype(np.float32)

    def with_lengths(least):
        lengths = rng.integers(least, T + 1, B)
        lengths[0] = T
        return passes(lambda: (net(xs, lengths=lengths)[0] * cotangent).sum(), net.parameters())

    contestants = {
        "no lengths": passes(lambda: (net(xs)[0] * cotangent).sum(), net.parameters()),
        f"lengths from {T // 2} to {T}": with_lengths(T // 2),
        f"lengths from 1 to {T}": with_lengths(1),
    }
    compared(f"bidirectional LSTM of 2 layers, {size}: T={T} B={B} m={m} d={d}", contestants, 4 * T, seconds)


def long_sequence(T):
    """One pass over T steps of an LSTM with m = 4, d = 8: seconds, and the peak of the memory that it took."""
    net = nn.LSTM(4, 8, rng=0, dtype=np.float32)
    xs = np.random.default_rng(0).standard_normal((T, 1, 4)).astype(np.float32)
    before, start = peak_memory(), time.process_time()
    outputs, _ = net(xs)
    outputs.square().sum().backward()
    print(time.process_time() - start, peak_memory() - before)


def peak_memory():
    """The most bytes that this process has had in memory."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def linear_in_time():
    print("\nLSTM, m=4 d=8 B=1, one pass each in a process of its own")
    print(f"{'T':>8} {'time':>9} {'per step':>10} {'memory':>9} {'per step':>9}")
    for T in LONG:
        told = subprocess.run([sys.executable, __file__, "--long", str(T)], check=True, capture_output=True, text=True)
        seconds, size = (float(x) for x in told.stdout.split())
        print(f"{T:8} {seconds:7.2f} s {seconds / T * 1e6:7.1f} µs {size / 1e6:6.0f} MB {size / T / 1e3:6.2f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=4.0, help="for each table")
    parser.add_argument("--long", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.long:
        long_sequence(options.long)
        return
    for size in options.sizes:
        layer_against_bare(size, options.seconds)
    for size in options.sizes:
        lengths_against_none(size, options.seconds)
    linear_in_time()


if __name__ == "__main__":
    main()
