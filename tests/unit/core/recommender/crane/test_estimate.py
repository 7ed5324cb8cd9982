from __future__ import annotations

import numpy as np

from agent.core.recommender.crane.estimate import Estimation, to_bytes, to_millicores, weigh


def test_weigh_is_the_value_but_no_less_than_the_least_weight() -> None:
    assert weigh(np.array([0.0, 1e-6, 0.25, 7.0])).tolist() == [1e-5, 1e-5, 0.25, 7.0]
    assert weigh(np.array([0.25, 7.0]), 0.5).tolist() == [0.5, 7.0]


def test_estimation_set_up_without_margin_and_utilisation_is_the_percentile() -> None:
    assert Estimation().percentile == 0.99
    assert Estimation().of_percentile(np.array([0.1, 3.5])).tolist() == [0.1, 3.5]


def test_estimation_multiplies_by_one_and_the_margin_before_it_divides() -> None:
    # 0.1 x 1.15 = 0.11499999999999999 in binary: 114 millicores; 0.1 + 0.1 x 0.15 would be 0.115 and give 115
    estimates = Estimation(margin_fraction=0.15).of_percentile(np.array([0.1]))
    assert estimates.tolist() == [0.11499999999999999]
    assert to_millicores(estimates).tolist() == [114.0]
    # 0.5 x 1.15 / 0.8 = 0.7187499999999999 in this order
    assert Estimation(margin_fraction=0.15, target_utilization=0.8).of_percentile(np.array([0.5])).tolist() == [
        0.7187499999999999
    ]


def test_to_bytes_truncates() -> None:
    # 100 MiB x 1.15 = 120586239.99999999: the figure that Crane's release notes print
    estimates = Estimation(margin_fraction=0.15).of_percentile(np.array([104857600.0]))
    assert to_bytes(estimates).tolist() == [120586239.0]
