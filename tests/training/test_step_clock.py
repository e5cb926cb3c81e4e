"""Waiting times of a training step, measured and shown."""

import time

import torch

from lps.training.step_clock import StepClock
from lps.wording import step_in_words


def test_time_goes_to_the_stage_that_ends():
    clock = StepClock(torch.device("cpu"))
    for _ in range(2):
        time.sleep(0.02)
        clock.lap("read")
        clock.lap("views")
    told = clock.by_step(2)
    assert told["time/read_s"] >= 0.02 > told["time/views_s"] and set(told) == {"time/read_s", "time/views_s"}


def test_the_sentence_says_the_shares_and_what_workers_could_do():
    told = {"time/read_s": 0.3, "time/views_s": 0.1, "time/network_s": 0.1}
    said = "A training step takes 0.5 s: 60 % to read the data, 20 % to make the views, 20 % to run the network"
    assert step_in_words(told) == f"{said}."
    rate = told | {"throughput/decoded_per_s": 1234.5}
    assert step_in_words(rate).startswith(said) and "1,234 pictures a second" in step_in_words(rate)
    for missing in ({}, {"time/read_s": 0.3}, told | {"time/views_s": None}, told | {"time/views_s": float("nan")}):
        assert step_in_words(missing) == ""
