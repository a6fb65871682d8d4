"""How long a message waits before it is tried again."""

from __future__ import annotations

from penstock.coordination.delivery.shared_settings import ShareSettings


def test_the_wait_doubles_up_to_its_limit_and_jitter_is_in_its_upper_half() -> None:
    """R-DEL-9: exponential backoff with jitter."""
    settings = ShareSettings(backoff_ms=1_000, backoff_ms_max=6_000)
    longest = [settings.backoff_after_ms(attempts, 1.0) for attempts in (1, 2, 3, 4, 100)]
    assert longest == [1_000, 2_000, 4_000, 6_000, 6_000]
    assert settings.backoff_after_ms(1, 0.0) == 500
    assert settings.backoff_after_ms(3, 0.5) == 3_000


def test_without_backoff_it_is_tried_again_at_once() -> None:
    settings = ShareSettings(backoff_ms=0, backoff_ms_max=0)
    assert settings.backoff_after_ms(50, 0.9) == 0
