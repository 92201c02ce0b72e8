"""Contestants in turn, round after round: ratios within a round hold when the machine's speed drifts."""

import statistics
import time


def rounds(contestants, seconds, least=5, clock=time.perf_counter):
    """The times of each contestant, one for each round: for so many seconds, and at least so many rounds."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    done = 0
    while time.perf_counter() < end or done < least:
        for name, run in contestants.items():
            start = clock()
            run()
            times[name].append(clock() - start)
        done += 1
    return times


def ratio(mine, others):
    """The median of the ratios, round by round."""
    return statistics.median(a / b for a, b in zip(mine, others, strict=True))
