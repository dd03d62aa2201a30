"""What a test computes under a patch is gone for the tests after it."""

from fractions import Fraction

import pytest

from topdown.plan import optimal_weights


def test_caches_are_empty_after_a_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers computed by a mutant would stay for every later test of the process, and decide how it ends."""
    with monkeypatch.context() as patch:
        patch.setattr("topdown.plan.PLAN_VERSION", 0, raising=False)
        optimal_weights(Fraction(1), Fraction(1, 10))
        assert optimal_weights.cache_info().currsize
    assert not optimal_weights.cache_info().currsize


def test_caches_stay_after_a_change_of_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests change folder or environment alone; without caches they would compute everything anew."""
    optimal_weights(Fraction(1), Fraction(1, 10))
    with monkeypatch.context() as patch:
        patch.setenv("HOME", "/nowhere")
    assert optimal_weights.cache_info().currsize
