"""The checker is checked: every rule of every primitive is made wrong, and the suite's own check must fail."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engine.test_ops import CALLS, check, primitives
from tinygrad_seq.engine import ops
from tinygrad_seq.engine.recording import Part

PRIMITIVES = primitives()
FLAT = {"sign", "floor", "ceil", "trunc", "rint", "floor_divide"}  # and copysign in its second input

# A rate of zero stays that when it is multiplied: it is moved off zero instead.
MUTATIONS = {
    "scaled by 1.01": lambda c, g: 1.01 * c,
    "sign turned": lambda c, g: -c,
    "moved off zero": lambda c, g: c + 0.01 * g,
}


def mutated(contribution, change, g):
    """A contribution, made wrong; a part of one keeps its place."""
    if isinstance(contribution, Part):
        return Part(change(contribution.value, g), contribution.index)
    return change(contribution, g)


def rules_of(operation):
    """Which rules can be wrong: of one for each input, or of `every` for each of the first three inputs."""
    if operation.every:
        return [1, 2] if operation.__name__ == "hold" else [0, 1, 2]  # the first input of hold is a mask
    return [i for i, rule in enumerate(operation.rules) if rule]


CASES = [
    pytest.param(name, i, mutation, id=f"{name}, rule {i}, {mutation}")
    for name, operation in PRIMITIVES.items()
    for i in rules_of(operation)
    for mutation in (list(MUTATIONS)[2:] if name in FLAT or (name, i) == ("copysign", 1) else list(MUTATIONS)[:2])
]


@pytest.mark.parametrize(("name", "i", "mutation"), CASES)
def test_a_wrong_rule_does_not_get_by(name, i, mutation, monkeypatch):
    operation, change = PRIMITIVES[name], MUTATIONS[mutation]
    if operation.every:
        right = operation.every

        def every(g, *values, **options):
            parts = list(right(g, *values, **options))
            return [mutated(c, change, g) if k == i else c for k, c in enumerate(parts)]

        monkeypatch.setattr(operation, "every", every)
    else:
        rule = operation.rules[i]
        wrong = lambda g, *values, **options: mutated(rule(g, *values, **options), change, g)
        monkeypatch.setattr(operation, "rules", (*operation.rules[:i], wrong, *operation.rules[i + 1 :]))

    @settings(max_examples=100, phases=[Phase.generate], database=None, derandomize=True, report_multiple_bugs=False,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def checked(data):
        check(data.draw(CALLS[name]), 0)

    with pytest.raises(AssertionError):
        checked()


def test_every_primitive_is_mutated():
    assert {case.values[0] for case in CASES} == PRIMITIVES.keys()
    assert sum(len(rules_of(op)) for op in PRIMITIVES.values()) * 2 - len(FLAT) - 2 == len(CASES)
    assert "getitem" in PRIMITIVES and isinstance(ops.getitem.rules[0](np.ones(2), None, None, index=(0, ...)), Part)
