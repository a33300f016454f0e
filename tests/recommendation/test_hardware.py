import json
from dataclasses import replace

import pytest

from edgetrain.cli import main
from edgetrain.errors import UsageError
from edgetrain.recommendation.hardware import BoardOffer, MediumCost, TrainingTarget
from edgetrain.recommendation.published import EpochFigure, Published, SpeedUp, Trainable, load_published
from edgetrain.recommendation.ranking import rank_devices
from edgetrain.schema import Origin

GIB = 2**30
FAST = MediumCost("ssd", 0.0005, 350e6, 32, {}, "a data sheet")
SLOW = MediumCost("hdd", 0.02, 100e6, 1, {4: 1.25}, "a paper")
MEDIA = {"ssd": FAST, "hdd": SLOW}
NOTHING = Published((), (), {}, {})


def ranked(*arguments):
    return rank_devices(*arguments).options


def offer(board="big", price=1000.0, media=("ssd", "hdd"), fit=None, peak=60.0) -> BoardOffer:
    return BoardOffer(board, board.title(), 32 * GIB, media, price, peak, fit)


def figure(board="big", epoch_s=300.0, **more) -> EpochFigure:
    return EpochFigure(board, "net", 20_000, epoch_s, "a paper", energy_j=9000.0, **more)


TRAINED = Published((), (), {"net": Trainable(("big", "small", "new"), "s", ("tiny",))}, {"s": "the paper"})
TARGET = TrainingTarget("net", 20_000, None)


def test_the_cheapest_that_meets_the_target_comes_first_and_failures_last_with_the_reason():
    offers = [offer("big", 1000), offer("small", 300)]
    figures = [figure("big", 300), figure("small", 900)]
    by_price = ranked(replace(TARGET, epochs=2, deadline_s=3000), offers, MEDIA, figures, TRAINED)
    assert by_price[0].board == "small" and by_price[0].verdict == "meets"
    tight = ranked(replace(TARGET, epochs=2, deadline_s=700), offers, MEDIA, figures, TRAINED)
    assert tight[0].board == "big"
    assert tight[-1].board == "small" and "deadline" in tight[-1].fails[0]
    by_time = ranked(replace(TARGET, rank_by="time"), offers, MEDIA, figures, TRAINED)
    assert by_time[0].board == "big"


def test_what_nobody_measured_is_unknown_never_zero():
    found = ranked(replace(TARGET, deadline_s=100), [offer()], MEDIA, [], TRAINED)[0]
    assert found.epoch_s is None and found.total_s is None and found.epoch_energy_j is None
    assert found.verdict == "cannot say" and any("no published or measured figure" in text for text in found.unknown)


def test_fetching_longer_than_training_holds_an_epoch_up_where_the_cache_is_too_small():
    class Small:
        verdict, cached_share = "fits", 0.0

    target = TrainingTarget("net", 20_000, 122_000, epochs=3)
    options = ranked(target, [offer(fit=Small())], MEDIA, [figure(epoch_s=100.0)], TRAINED)
    slow = next(each for each in options if each.medium == "hdd")
    fast = next(each for each in options if each.medium == "ssd")
    assert slow.fetch_hidden is False and slow.fetch_s > 100
    assert slow.epoch_s.value == pytest.approx(slow.fetch_s)
    assert slow.epoch_s.origin is Origin.PREDICTED
    assert fast.fetch_hidden and fast.just_enough and fast.epoch_s.value == 100
    roomy = Small()
    roomy.cached_share = 1.0
    cached = ranked(target, [offer(fit=roomy)], MEDIA, [figure(epoch_s=100.0)], TRAINED)
    slow = next(each for each in cached if each.medium == "hdd")
    assert slow.fetch_hidden and slow.just_enough and slow.fetch_hidden_cold is False
    assert slow.cold_epoch_s > slow.epoch_s.value == 100


def test_memory_is_judged_by_count_then_by_what_the_papers_could_train():
    class No:
        verdict, cached_share = "does not fit", 0.0

    assert "memory" in ranked(TARGET, [offer(fit=No())], MEDIA, [figure()], TRAINED)[0].fails[0]
    tiny = ranked(TARGET, [offer("tiny")], MEDIA, [figure("tiny")], TRAINED)[0]
    assert "could not train" in tiny.fails[0]
    silent = ranked(TARGET, [offer()], MEDIA, [figure()], NOTHING)[0]
    assert silent.verdict == "cannot say" and "not known" in silent.unknown[-1]


def test_another_dataset_size_is_scaled_and_labelled_predicted():
    found = ranked(replace(TARGET, samples=60_000), [offer()], MEDIA, [figure(epoch_s=300)], TRAINED)[0]
    assert found.epoch_s.value == pytest.approx(900) and found.epoch_s.origin is Origin.PREDICTED
    assert any("scaled" in source for source in found.sources)


def test_a_speed_up_range_gives_a_range_and_a_deadline_inside_it_is_not_decided():
    published = replace(TRAINED, speed_ups=(SpeedUp("new", "big", 2.0, 4.0, "the paper"),))
    target = replace(TARGET, deadline_s=100)
    found = ranked(target, [offer("new")], MEDIA, [figure("big", 300)], published)[0]
    assert (found.epoch_s.lo, found.epoch_s.hi) == (75, 150)
    assert found.verdict == "cannot say"
    sure = ranked(replace(target, deadline_s=200), [offer("new")], MEDIA, [figure("big", 300)], published)[0]
    assert sure.verdict == "meets"


def test_ones_own_measurement_beats_a_published_figure():
    figures = [figure(epoch_s=300), figure(epoch_s=330, origin=Origin.MEASURED)]
    assert ranked(TARGET, [offer()], MEDIA, figures, TRAINED)[0].epoch_s.value == 330


def test_an_unknown_price_or_energy_is_no_pass_and_no_failure():
    poor = ranked(replace(TARGET, max_price_usd=500), [offer(price=None)], MEDIA, [figure()], TRAINED)[0]
    assert poor.verdict == "cannot say"
    blind = replace(figure(), energy_j=None)
    tight = ranked(replace(TARGET, max_energy_j=300 * 59), [offer()], MEDIA, [blind], TRAINED)[0]
    assert tight.verdict == "cannot say"
    loose = ranked(replace(TARGET, max_energy_j=300 * 61), [offer()], MEDIA, [blind], TRAINED)[0]
    assert loose.verdict == "meets"


def test_impossible_targets_are_refused():
    for changes in ({"rank_by": "colour"}, {"epochs": 0}, {"deadline_s": -1.0}):
        with pytest.raises(UsageError):
            replace(TARGET, **changes)
    with pytest.raises(UsageError, match="no board"):
        ranked(TARGET, [], MEDIA, [], NOTHING)


def test_every_published_figure_has_a_source_and_a_plausible_value():
    published = load_published()
    assert len({(f.board, f.network, f.medium) for f in published.figures}) == len(published.figures)
    for each in published.figures:
        assert each.source in published.sources.values()
        assert 1 < each.epoch_s < 36_000 and each.samples > 1000
        assert each.energy_j is None or 3 < each.energy_j / each.epoch_s < 70  # watts


def test_the_command_ranks_the_catalogue_for_a_published_network(capsys, tmp_path):
    pytest.importorskip("torch")  # whether a network fits is counted by torch
    asked = ["choose-device", "lenet5", "--epochs", "10", "--max-price-usd", "500", "--store", str(tmp_path), "--json"]
    assert main(asked) == 0
    document = json.loads(capsys.readouterr().out)
    first = document["options"][0]
    assert first["board"] == "nano" and first["verdict"] == "meets" and first["epoch_s"]["origin"] == "published"
    assert all(each["epoch_s"] is None for each in document["options"] if each["board"] == "thor")
    assert main([*asked[:-1]]) == 0
    assert "Jetson Nano" in capsys.readouterr().out
    assert main(["choose-device", "unheard_of"]) == 2
    assert "--samples" in capsys.readouterr().err
    assert main(["choose-device", "lenet5", "--max-price-usd", "10", "--device", "nano", "--store", str(tmp_path)]) == 1
