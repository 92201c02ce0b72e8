"""The unrolled graph, drawn: where values go, and where credit comes back.

    python examples/draw_the_graph.py                   the questions, and what the drawings say to them
    python examples/draw_the_graph.py --into DIRECTORY  the drawings as SVG, and a page to explore: open it in a browser

One LSTM of one unit over four steps, its loss at the last. Each drawing is another question to the same recorded
graph: the whole gradient; truncated after step 2; along the cell alone, with h held fixed.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import tinygrad_seq as tg

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark


def unrolled():
    """The tape of four steps: a one to remember, then nothing."""
    cell = tg.nn.LSTMCell(1, 1, rng=np.random.default_rng(2))
    _, state = tg.nn.unroll(cell, np.array([[1.0], [0.0], [0.0], [0.0]]))
    return tg.Tape((0.5 * (state.h - 1.0) ** 2).sum().named("loss"))


def between_steps(drawing):
    """The edges from one step to the next: by how many credit comes back, and over how many only the value goes."""
    edges = [e for e in drawing.edges if e.source.step is not None and e.target.step not in (None, e.source.step)]
    back = [e for e in edges if e.credit is not None]
    by = sorted({e.source.name for e in back})
    return len(back), len(edges) - len(back), ", ".join(by)


def main():
    parser = argparse.ArgumentParser(description="Draw an unrolled LSTM and where credit goes on it.")
    parser.add_argument("--into", type=Path, metavar="DIRECTORY", help="write the drawings there")
    options = parser.parse_args()
    tape = unrolled()
    questions = {
        "the whole gradient": tape.flow(),
        "truncated after step 2": tape.flow(cut=[(2, 3)]),
        "along the cell alone": tape.flow(holding=[h for h in tape.find("h") if h.step in (1, 2, 3)]),
    }
    rows = []
    for question, flow in questions.items():
        drawing = tg.draw(flow, fold=None)  # all of the four steps, however wide
        rows.append((question, *between_steps(drawing), flow[tape.find("c", 1)].item()))
        if options.into:
            options.into.mkdir(parents=True, exist_ok=True)
            drawing.save(options.into / f"{question.replace(' ', '_')}.svg")
    if options.into:
        tg.explore(tape, holding="h").save(options.into / "explore.html")
        print(f"Three drawings and a page, explore.html, are in {options.into}.\n")
    print(f"An LSTM of one unit over 4 steps: {len(tape)} operations; {len(drawing.nodes)} tensors have names.")
    print("The same values cross from step to step in all three drawings; the credit does not.\n")
    columns = ("question", "edges with credit", "value only", "credit by", "gradient of c at step 1")
    print(tg.Table(columns, rows, "From one step to the next", precision=4))

    whole, cut, cell = rows
    assert [row[1] + row[2] for row in rows] == [15, 15, 15]  # h to four gates and c to c, three times
    assert whole[1:4] == (15, 0, "c, h") and cell[1:4] == (3, 12, "c")
    assert cut[1:3] == (5, 10) and cut[4] == 0.0
    forget = [tape.find("f", t).item() for t in (2, 3, 4)]
    at_the_end = questions["along the cell alone"][tape.find("c", 4)].item()
    assert np.isclose(cell[4], at_the_end * np.prod(forget), rtol=1e-12)
    print("\nAlong the cell alone, each step back multiplies by its forget gate and by nothing else:")
    print(f"{at_the_end:.4g} (at c, step 4) × {' × '.join(f'{f:.4g}' for f in reversed(forget))} = {cell[4]:.4g}")
    if not options.into:
        print("\nThe truncated graph, for Mermaid (with --into DIRECTORY all three as pictures):\n")
        print(tg.draw(questions["truncated after step 2"], steps=(2, 3)).mermaid())


if __name__ == "__main__":
    main()
