"""A leak is told from noise, and nothing known is not flat."""

from __future__ import annotations

from random import Random

from tests.soak.flatness import Growth, Sample, growth

MIB = 1 << 20


def life(seed: int, *, seconds: int = 240, leak_per_second: float = 0.0, warm_up: float = 0.0) -> list[Sample]:
    random = Random(seed)
    return [
        Sample(
            second=1000.0 * seed + second,
            age_seconds=float(second),
            rss_bytes=int(
                70 * MIB + random.gauss(0, MIB / 8) + leak_per_second * second + warm_up * min(second, 20) / 20
            ),
            descriptors=60 + random.choice([0, 0, 1]),
        )
        for second in range(0, seconds, 2)
    ]


def of_memory(*lives: list[Sample]) -> Growth:
    return growth(lives, "rss_bytes", warm_up_seconds=20.0, least=float(MIB))


def test_noise_is_flat_and_so_is_a_warm_up() -> None:
    memory_growth = of_memory(*(life(seed, warm_up=8.0 * MIB) for seed in range(1, 5)))
    assert memory_growth.lives == 4
    assert memory_growth.is_flat
    assert memory_growth.slope_per_hour is not None
    assert memory_growth.slope_per_hour.low < 0.0 < memory_growth.slope_per_hour.high


def test_a_leak_of_a_few_pages_a_second_is_not_flat() -> None:
    # 16 KiB a second are 3.4 MiB in the 218 s of a life after its warm-up.
    memory_growth = of_memory(*(life(seed, leak_per_second=16 * 1024.0) for seed in range(1, 5)))
    assert not memory_growth.is_flat


def test_one_jump_is_no_slope() -> None:
    jumped = [
        Sample(
            second=sample.second,
            age_seconds=sample.age_seconds,
            rss_bytes=sample.rss_bytes + (4 * MIB if sample.age_seconds > 200 else 0),
            descriptors=sample.descriptors,
        )
        for sample in life(1)
    ]
    assert of_memory(jumped, life(2), life(3)).is_flat


def test_descriptors_are_counted_likewise() -> None:
    lives = [life(seed) for seed in range(1, 4)]
    assert growth(lives, "descriptors", warm_up_seconds=20.0, least=2.0).is_flat
    leaking = [
        [
            Sample(second=s.second, age_seconds=s.age_seconds, rss_bytes=0, descriptors=60 + int(s.age_seconds // 20))
            for s in samples
        ]
        for samples in lives
    ]
    assert not growth(leaking, "descriptors", warm_up_seconds=20.0, least=2.0).is_flat


def test_lives_too_short_tell_nothing_and_that_is_not_flat() -> None:
    memory_growth = of_memory(life(1, seconds=30))
    assert (memory_growth.lives, memory_growth.slope_per_hour, memory_growth.is_flat) == (0, None, False)
