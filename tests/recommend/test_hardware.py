import json
from dataclasses import replace

import pytest

from edgetrain.cli import main
from edgetrain.errors import UsageError
from edgetrain.recommend.hardware import Medium, Offer, Target, choose_device
from edgetrain.recommend.published import Figure, Published, SpeedUp, load
from edgetrain.schema import Origin

GIB = 2**30
FAST = Medium("ssd", 0.0005, 350e6, 32, {}, "a data sheet")
SLOW = Medium("hdd", 0.02, 100e6, 1, {4: 1.25}, "a paper")
MEDIA = {"ssd": FAST, "hdd": SLOW}
NOTHING = Published((), (), {}, {})


def offer(board="big", price=1000.0, media=("ssd", "hdd"), fit=None, peak=60.0) -> Offer:
    return Offer(board, board.title(), 32 * GIB, media, price, peak, fit)


def figure(board="big", epoch_s=300.0, **more) -> Figure:
    return Figure(board, "net", 20_000, epoch_s, "a paper", energy_j=9000.0, **more)


TRAINED = Published(
    (), (), {"net": {"on": ["big", "small", "new"], "not_on": ["tiny"], "source": "s"}}, {"s": "the paper"}
)
TARGET = Target("net", 20_000, None)


def test_the_cheapest_that_meets_the_target_comes_first_and_failures_last_with_the_reason():
    offers = [offer("big", 1000), offer("small", 300)]
    figures = [figure("big", 300), figure("small", 900)]
    by_price = choose_device(replace(TARGET, epochs=2, deadline_s=3000), offers, MEDIA, figures, TRAINED)
    assert by_price[0].offer.board == "small" and by_price[0].verdict == "meets"
    tight = choose_device(replace(TARGET, epochs=2, deadline_s=700), offers, MEDIA, figures, TRAINED)
    assert tight[0].offer.board == "big"
    assert tight[-1].offer.board == "small" and "deadline" in tight[-1].fails[0]
    by_time = choose_device(replace(TARGET, rank_by="time"), offers, MEDIA, figures, TRAINED)
    assert by_time[0].offer.board == "big"


def test_what_nobody_measured_is_unknown_never_zero():
    found = choose_device(replace(TARGET, deadline_s=100), [offer()], MEDIA, [], TRAINED)[0]
    assert found.epoch_s is None and found.total_s is None and found.energy_j is None
    assert found.verdict == "cannot say" and any("nobody published" in text for text in found.unknown)


def test_fetching_longer_than_training_holds_an_epoch_up_where_the_cache_is_too_small():
    class Small:
        verdict, cached_share = "fits", 0.0

    target = Target("net", 20_000, 122_000, epochs=3)
    options = choose_device(target, [offer(fit=Small())], MEDIA, [figure(epoch_s=100.0)], TRAINED)
    slow = next(each for each in options if each.medium == "hdd")
    fast = next(each for each in options if each.medium == "ssd")
    assert slow.hidden_warm is False and slow.fetch_s > 100
    assert slow.epoch_s.value == pytest.approx(slow.fetch_s)
    assert slow.epoch_s.origin is Origin.PREDICTED
    assert fast.hidden_warm and fast.just_enough and fast.epoch_s.value == 100
    roomy = Small()
    roomy.cached_share = 1.0
    cached = choose_device(target, [offer(fit=roomy)], MEDIA, [figure(epoch_s=100.0)], TRAINED)
    slow = next(each for each in cached if each.medium == "hdd")
    assert slow.hidden_warm and slow.just_enough and slow.hidden_cold is False
    assert slow.cold_epoch_s > slow.epoch_s.value == 100


def test_memory_is_judged_by_count_then_by_what_the_papers_could_train():
    class No:
        verdict, cached_share = "does not fit", 0.0

    assert "memory" in choose_device(TARGET, [offer(fit=No())], MEDIA, [figure()], TRAINED)[0].fails[0]
    tiny = choose_device(TARGET, [offer("tiny")], MEDIA, [figure("tiny")], TRAINED)[0]
    assert "could not train" in tiny.fails[0]
    silent = choose_device(TARGET, [offer()], MEDIA, [figure()], NOTHING)[0]
    assert silent.verdict == "cannot say" and "not known" in silent.unknown[-1]


def test_another_dataset_size_is_scaled_and_labelled_predicted():
    found = choose_device(replace(TARGET, samples=60_000), [offer()], MEDIA, [figure(epoch_s=300)], TRAINED)[0]
    assert found.epoch_s.value == pytest.approx(900) and found.epoch_s.origin is Origin.PREDICTED
    assert any("scaled" in source for source in found.sources)


def test_a_speed_up_range_gives_a_range_and_a_deadline_inside_it_is_not_decided():
    published = replace(TRAINED, speed_ups=(SpeedUp("new", "big", 2.0, 4.0, "the paper"),))
    target = replace(TARGET, deadline_s=100)
    found = choose_device(target, [offer("new")], MEDIA, [figure("big", 300)], published)[0]
    assert (found.epoch_s.lo, found.epoch_s.hi) == (75, 150)
    assert found.verdict == "cannot say"
    sure = choose_device(replace(target, deadline_s=200), [offer("new")], MEDIA, [figure("big", 300)], published)[0]
    assert sure.verdict == "meets"


def test_ones_own_measurement_beats_a_published_figure():
    figures = [figure(epoch_s=300), figure(epoch_s=330, origin=Origin.MEASURED)]
    assert choose_device(TARGET, [offer()], MEDIA, figures, TRAINED)[0].epoch_s.value == 330


def test_an_unknown_price_or_energy_is_no_pass_and_no_failure():
    poor = choose_device(replace(TARGET, max_price_usd=500), [offer(price=None)], MEDIA, [figure()], TRAINED)[0]
    assert poor.verdict == "cannot say"
    blind = replace(figure(), energy_j=None)
    tight = choose_device(replace(TARGET, max_energy_j=300 * 59), [offer()], MEDIA, [blind], TRAINED)[0]
    assert tight.verdict == "cannot say"
    loose = choose_device(replace(TARGET, max_energy_j=300 * 61), [offer()], MEDIA, [blind], TRAINED)[0]
    assert loose.verdict == "meets"


def test_impossible_targets_are_refused():
    for changes in ({"rank_by": "colour"}, {"epochs": 0}, {"deadline_s": -1.0}):
        with pytest.raises(UsageError):
            replace(TARGET, **changes)
    with pytest.raises(UsageError, match="no board"):
        choose_device(TARGET, [], MEDIA, [], NOTHING)


def test_every_published_figure_has_a_source_and_a_plausible_value():
    published = load()
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
