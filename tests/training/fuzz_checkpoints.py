"""Damage checkpoints at random and load them: python tests/training/fuzz_checkpoints.py FILES [FOLDER] [SEED]

Each file is a checkpoint with bytes changed, cut out, repeated or exchanged, or with one entry replaced by another, in
the zip file or in the list of its entries. Loaded with and without parts, it must be refused by a ValueError, or say
what it said before; and a refused load must leave the parts as they were. Prints how many were refused.
"""

import io
import json
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import tinygrad_seq as tg


class Net(tg.nn.Module):
    def __init__(self, seed):
        words = tg.nn.Vocabulary(["cat", "dog"])
        encoder = tg.nn.WordEncoder(words, 3, rng=seed)
        self.bilm = tg.nn.BiLM(encoder, words, hidden=3, layers=1, stateful=True, dropout=0.5, rng=seed)
        self.ids = tg.Tensor([1, 2])


def parts(seed):
    net = Net(seed)
    optimiser = tg.optim.Adam(net, lr=0.1)
    net.bilm.loss([["cat"], ["dog", "cat"]]).backward()
    optimiser.step()
    kinds = (np.random.MT19937, np.random.Philox, np.random.PCG64, np.random.SFC64)
    rngs = [np.random.Generator(kind(seed)) for kind in kinds]
    return {"net": net, "optimiser": optimiser, "rngs": rngs, "state": {"h": np.ones(3), "n": 1}, "text": "abc"}


def contents(some):
    stream = {}
    for name, part in some.items():
        if name == "rngs":
            stream[name] = [json.dumps(rng.bit_generator.state, default=np.ndarray.tolist) for rng in part]
        elif hasattr(part, "state_dict"):
            stream[name] = {path: array.tobytes() for path, array in part.state_dict().items()}
    stream["carried"] = [array.tobytes() for array in some["net"].bilm.carried()]
    stream["dropout"] = json.dumps(some["net"].bilm.dropout.rng.bit_generator.state)
    return stream


def damaged(whole, rng):
    data = bytearray(whole)
    at = len(data) - int(rng.integers(1, 3000)) if rng.random() < 0.5 else int(rng.integers(len(data)))
    match rng.integers(7):
        case 0:
            data[at] ^= int(rng.integers(1, 256))
        case 1:
            for place in rng.integers(max(0, at - 40), min(len(data), at + 40), 5):
                data[place] = int(rng.choice([0, 1, 255, int(rng.integers(256))]))
        case 2:
            del data[at : at + int(rng.integers(1, 200))]
        case 3:
            data[at:at] = data[at : at + int(rng.integers(1, 200))]
        case 4:
            del data[at:]
        case 5:
            return reassembled(whole, rng)
        case 6:
            size = int(rng.choice([2, 4, 8]))
            data[at : at + size] = int(rng.choice([0, 1, 2**31, 2**32 - 1, 2**63])).to_bytes(16, "little")[:size]
    return bytes(data)


def reassembled(whole, rng):
    """A sound zip file with another text or array, name or number of entries in it."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = [[name, bytearray(archive.read(name))] for name in archive.namelist()]
    k, other = rng.integers(len(members), size=2)
    match rng.integers(6):
        case 0:
            del members[k]
        case 1:
            members[k][1] = members[other][1]
        case 2:
            members[k][0], members[other][0] = members[other][0], members[k][0]
        case 3:
            place = int(rng.integers(len(members[k][1])))
            members[k][1][place] ^= int(rng.integers(1, 256))
        case 4:
            members[k][0] = str(
                rng.choice(["w", "w/a", "net", "net/", "/", "", "a\0b.npy", "../x.npy", "rngs/0/1.npy"])
            )
        case 5:  # numbers in the text of a generator's state, which stands in UTF-32
            k = rng.choice([k for k, (name, _) in enumerate(members) if "rng" in name])
            array = np.load(io.BytesIO(bytes(members[k][1])))
            text = str(array)
            digits = [i for i, letter in enumerate(text) if letter.isdigit()]
            i = int(rng.choice(digits))
            text = text[:i] + str(rng.choice(["-", "99999999", "1e9", ".5", "null", "[", "}", '"', ""])) + text[i + 1 :]
            stream = io.BytesIO()
            np.lib.format.write_array(stream, np.array(text))
            members[k][1] = stream.getvalue()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), bytes(data))
    return stream.getvalue()


def main(files, folder, seed):
    rng, path = np.random.default_rng(seed), Path(folder) / "fuzzed.npz"
    tg.save(path, **parts(0))
    whole = path.read_bytes()
    names = sorted(zipfile.ZipFile(path).namelist())
    refused = {"with parts": 0, "without": 0}
    for number in range(files):
        data = damaged(whole, rng)
        path.write_bytes(data)
        live = parts(1)
        before = contents(live)
        try:
            tg.load(path, **live)
        except ValueError:
            refused["with parts"] += 1
            assert contents(live) == before, f"file {number}: refused, and something was filled"
        else:
            for generator in live["rngs"]:  # what was taken up can be drawn from
                generator.random(1000)
                generator.integers(0, 9, 5, dtype=np.int32)
        try:
            loaded = tg.load(path)
        except ValueError:
            refused["without"] += 1
        else:
            flat = {
                f"{part}/{name}" if isinstance(value, dict) else part
                for part, value in loaded.items()
                for name in (value if isinstance(value, dict) else [""])
            }
            members = [name.removesuffix(".npy") for name in zipfile.ZipFile(path).namelist()]
            assert len(members) == len(flat) + 1, f"file {number}: an entry was lost"
            assert len(members) == len(names) or data != whole
    print(f"{files} files; refused {refused}")


if __name__ == "__main__":
    number, folder, seed, *_ = [*sys.argv[1:], *["", "", ""][len(sys.argv) - 1 :]]
    main(int(number or 3000), folder or tempfile.mkdtemp(), int(seed or 0))
