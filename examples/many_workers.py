"""The gradient of a batch, computed in shards by several processes or machines, is the gradient of the batch.

    python examples/many_workers.py                                    workers of its own on this machine (Dask)
    python examples/many_workers.py --scheduler tcp://HOST:8786        a Dask cluster that is already running

A shared weight gets one contribution from each of its uses, and they add. They add over the steps of a sequence, over
the rows of a batch, and just as well over machines: every worker differentiates the loss of its own rows, and the sum
of what they return is what one machine would have found, to rounding.

The script compares the two, trains that way, kills one of its workers in the middle of a gradient, and measures how
the time falls with the number of workers. A shard's gradient is a pure function of weights and rows, so a shard that
was lost with its worker is simply computed again, by another one.
"""

import argparse
import os
import signal
import sys
import time

import numpy as np

import tinygrad_seq as tg

STEPS, BATCH, HIDDEN = 50, 192, 32


class Adder(tg.nn.Module):
    """Adds the two marked numbers of a sequence."""

    def __init__(self, rng):
        self.gru = tg.nn.GRU(2, HIDDEN, rng=rng)
        self.readout = tg.nn.Linear(HIDDEN, 1, rng=rng)

    def loss(self, xs, targets):
        """Summed over the rows, so that the shards' losses add up to the batch's."""
        outputs, _ = self.gru(xs)
        return tg.nn.mse(self.readout(outputs[-1]), targets, reduction="sum")


def gradients(weights, xs, targets):
    """What one worker does: the loss of some rows at these weights, and its gradient, by name."""
    model = Adder(rng=0)
    model.load_state_dict(weights)
    loss = model.loss(xs, targets)
    loss.backward()
    return loss.item(), {name: x.grad for name, x in model.named_parameters().items()}


def shards(batch, n):
    """The rows of a batch, in n parts."""
    xs, targets = batch
    return [(xs[:, rows], targets[rows]) for rows in np.array_split(np.arange(len(targets)), n)]


def added(results):
    """The sum of the shards' losses, and of their gradients."""
    losses, parts = zip(*results, strict=True)
    return sum(losses), {name: sum(part[name] for part in parts) for name in parts[0]}


def submitted(client, model, batch, workers):
    """A shard for each of these workers, under way. Should one die, any other may take over its shard."""
    weights = model.state_dict()
    return [
        client.submit(gradients, weights, *shard, workers=[worker], allow_other_workers=True, pure=False)
        for worker, shard in zip(workers, shards(batch, len(workers)), strict=True)
    ]


def same(client, model, batch, workers):
    """The largest difference between the workers' sum and the whole batch's gradient, relative to its largest entry."""
    _, whole = gradients(model.state_dict(), *batch)
    _, summed = added(client.gather(submitted(client, model, batch, workers)))
    difference = max(np.abs(summed[name] - g).max() / np.abs(g).max() for name, g in whole.items())
    assert difference < 1e-10, difference
    return difference


def train(client, model, updates, killed_at=None):
    """The usual loop. At one update, a worker is killed while it has a shard to compute."""
    optimiser, rng = tg.optim.Adam(model.parameters(), lr=0.01), np.random.default_rng(1)
    for update in range(1, updates + 1):
        workers = list(client.nthreads())
        under_way = submitted(client, model, tg.data.adding_problem(rng, STEPS, BATCH), workers)
        if update == killed_at:
            victim = client.run(os.getpid, workers=workers[:1])[workers[0]]
            os.kill(victim, signal.SIGKILL)
        loss, summed = added(client.gather(under_way))
        for name, x in model.named_parameters().items():
            x.grad = summed[name] / BATCH
        tg.optim.clip_grad_norm(model.parameters(), 1.0)
        optimiser.step()
        if update % 25 == 0 or update == killed_at:
            note = "   a worker was killed, its shard computed by another" if update == killed_at else ""
            print(f"  update {update:4}   mean squared error {loss / BATCH:.4f}{note}", flush=True)
    return loss / BATCH


def measure(client, model, rng):
    """Seconds for the gradient of one large batch, by the number of workers that share it."""
    workers = list(client.nthreads())
    batch, alone = tg.data.adding_problem(rng, 2 * STEPS, 4 * BATCH), None
    for n in range(1, len(workers) + 1):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            client.gather(submitted(client, model, batch, workers[:n]))
            times.append(time.perf_counter() - start)
        seconds = min(times)
        alone = alone or seconds
        print(f"  {n} of the workers: {seconds:6.2f} s, {alone / seconds:.2f} times as fast as one")


def main():
    parser = argparse.ArgumentParser(description="Gradients of shards, added up over Dask workers.")
    parser.add_argument("--scheduler", help="the address of a running scheduler (default: workers on this machine)")
    parser.add_argument("--workers", type=int, default=2, help="workers to start, if none are running")
    parser.add_argument("--updates", type=int, default=150)
    options = parser.parse_args()
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print('many_workers needs the extra "dask": pip install "tinygrad-seq[dask]"')
        sys.exit(0)

    cluster = options.scheduler or LocalCluster(
        n_workers=options.workers, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
    )
    with Client(cluster) as client:
        model, rng = Adder(rng=0), np.random.default_rng(0)
        workers = list(client.nthreads())
        difference = same(client, model, tg.data.adding_problem(rng, STEPS, BATCH), workers)
        print(f"{len(workers)} workers: their gradients add up to the whole batch's, within {difference:.0e}")

        print("training, each batch in one shard for each worker")
        error = train(client, model, options.updates, None if options.scheduler else min(10, options.updates))
        assert options.updates < 150 or error < 0.1, f"always answering 1 has 0.167, this has {error}"

        print("one gradient of a large batch")
        measure(client, model, rng)
    if not options.scheduler:
        cluster.close()


if __name__ == "__main__":
    main()
