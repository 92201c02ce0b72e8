"""Replay of a GRU, a bidirectional LSTM over lengths and a biLM's loss, and what it costs to record and to keep.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python tests/benchmarks/replay.py

Against hand-written NumPy, as a careful person writes it (`floor`) and with every buffer and view made ahead
(`planned_floor`); the biLM against the bare products of its network (see elmo.py). For other frameworks see lstm.py.
Times are medians of interleaved runs in float32; ratios are taken round by round.
"""

import argparse
import inspect
import os
import statistics
import time
import tracemalloc

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import elmo
import floor
import lstm as plain
import numpy as np
import planned_floor
from interleaved import ratio, rounds

import tinygrad_seq as tg


def drawn(rng):
    return lambda *shape: (rng.standard_normal(shape) * 0.3).astype(np.float32)


def by_hand(name, *work):
    """The two floors, on the same work."""
    return {
        "floor": lambda: getattr(floor, name)(*work)[0],
        "floor, planned": lambda: getattr(planned_floor, name)(*work)[0],
    }


def gru(T, B, m, d, draw):
    net = tg.nn.GRU(m, d, dtype=np.float32, rng=0)
    cell = net.cells[0][0]
    xs, h0, cotangent = draw(T, B, m), draw(B, d), draw(T, B, d)
    weights = [x.data for x in (cell.A, cell.b, cell.W, cell.U, cell.b_g)]

    def loss_of(xs, h0, cotangent):
        return (net(xs, [[h0]])[0] * cotangent).sum()

    return net, loss_of, (xs, h0, cotangent), by_hand("gru", xs, *weights, h0, cotangent)


def bilstm(T, B, m, d, draw):
    net = tg.nn.LSTM(m, d, layers=2, bidirectional=True, dtype=np.float32, rng=0)
    lengths = np.linspace(T // 2, T, B).astype(int)
    xs, cotangent = draw(T, B, m), draw(T, B, 2 * d)
    start = np.zeros((2, 2, B, d), np.float32)
    weights = [[(cell.A.data, cell.b.data) for cell in layer] for layer in net.cells]

    def loss_of(xs, lengths, cotangent):
        return (net(xs, lengths=lengths)[0] * cotangent).sum()

    floors = by_hand("bilstm", xs, lengths, weights, start, start, cotangent)
    return net, loss_of, (xs, lengths, cotangent), floors


def lstm(T, B, m, d, draw):
    net = tg.nn.LSTM(m, d, dtype=np.float32, rng=0)
    cell = net.cells[0][0]
    xs, h0, c0, cotangent = draw(T, B, m), draw(B, d), draw(B, d), draw(T, B, d)

    def loss_of(xs, h0, c0, cotangent):
        return (net(xs, [[tg.nn.LSTMState(h0, c0)]])[0] * cotangent).sum()

    return net, loss_of, (xs, h0, c0, cotangent), by_hand("lstm", xs, cell.A.data, cell.b.data, h0, c0, cotangent)


def bilm(width, hidden, words, sentences, tokens, draw):
    rng = np.random.default_rng(0)
    net, text = elmo.build(width, hidden, words, sentences, tokens, rng)
    return net, net.loss, tuple(net.frames([text])), {"bare products": elmo.bare(elmo.products(net, text), rng)}


NETWORKS = {lstm: plain.SIZES, gru: plain.SIZES, bilstm: plain.SIZES, bilm: elmo.SIZES}


def peak(run) -> float:
    """The most memory that NumPy and Python hold at once during a run, in megabytes, beyond what was held before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=plain.SIZES, default=list(elmo.SIZES))
    parser.add_argument("--seconds", type=float, default=6.0, help="for each network and size")
    options = parser.parse_args()
    for make, sizes in NETWORKS.items():
        for size in filter(sizes.__contains__, options.sizes):
            net, loss_of, arguments, floors = make(*sizes[size], drawn(np.random.default_rng(0)))
            constants = [tg.Tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]

            def eager(net=net, loss_of=loss_of, constants=constants):
                net.zero_grad()
                loss = loss_of(*constants)
                loss.backward()
                return loss

            step = tg.replay(loss_of, wrt=net)
            stacked = tg.replay(loss_of, wrt=net, stack_steps=True)
            start = time.perf_counter()
            step(*arguments)
            recording = time.perf_counter() - start
            contestants = {
                **floors,
                "eager": eager,
                "replay": lambda net=net, step=step, arguments=arguments: (net.zero_grad(), step(*arguments))[1],
                "stacked": lambda net=net, step=stacked, arguments=arguments: (net.zero_grad(), step(*arguments))[1],
            }
            losses = [float(loss) for run in contestants.values() if (loss := run()) is not None]
            assert np.allclose(losses, losses[0], rtol=1e-3, atol=1e-2), losses
            times = rounds(contestants, options.seconds, least=3)
            *letters, _ = inspect.signature(make).parameters
            print(f"\n{make.__name__}, {size}: {', '.join(letters)} = {sizes[size]}")
            print(f"{'':16} {'median':>10} {'/ floor':>8} {'/ eager':>8} {'peak':>10}")
            for name, run in contestants.items():
                over = [ratio(times[name], times[other]) for other in (next(iter(floors)), "eager")]
                median = statistics.median(times[name]) * 1e6
                print(f"{name:16} {median:7.0f} µs {over[0]:8.2f} {over[1]:8.2f} {peak(run):7.2f} MB")
            kept = step.program.stats()["bytes"] / 1e6
            steps = recording / statistics.median(times["eager"])
            print(f"recording and planning took {steps:.1f} eager steps; the program keeps {kept:.2f} MB of buffers")


if __name__ == "__main__":
    main()
