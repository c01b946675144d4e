"""The example model of the demo and the benchmarks."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hotstart.examples import gpt  # noqa: E402

SMALL = gpt.GPTConfig(layers=2, width=16, heads=2, vocabulary=11, context=8)

pytestmark = pytest.mark.torch


def test_weights_depend_on_the_seed_only() -> None:
    ids = gpt.example_ids(SMALL)
    torch.manual_seed(99)
    state = torch.get_rng_state()
    first = gpt.build(SMALL)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(7)
    assert torch.equal(first(ids), gpt.build(SMALL)(ids))
    assert not torch.equal(first(ids), gpt.build(SMALL, seed=1)(ids))


def test_a_token_does_not_see_later_ones() -> None:
    model, ids = gpt.build(SMALL), gpt.example_ids(SMALL, batch=2)
    changed = ids.clone()
    changed[:, 5] = (changed[:, 5] + 1) % SMALL.vocabulary
    before, after = model(ids), model(changed)
    assert before.shape == (2, 8, 11)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5], after[:, 5])


def test_a_training_step_lowers_the_loss() -> None:
    model, ids = gpt.build(SMALL), gpt.example_ids(SMALL, batch=4)
    loss = gpt.loss(model, ids)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    assert gpt.loss(model, ids) < loss
