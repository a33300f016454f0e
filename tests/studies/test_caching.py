"""What caching gains is a share of an uncached epoch."""

import pytest

from edgetrain.schema import Origin
from edgetrain.studies.judging import judge_claims
from edgetrain.studies.sigmetrics.claims import TAKE_AWAYS
from tests.studies.planted import planted, point

CLAIM = [claim for claim in TAKE_AWAYS if claim.letter == "2"]


@pytest.mark.parametrize(("cold_ms", "share"), [(180.0, 0.6), (1980.0, 0.96)])
def test_what_caching_gains_is_less_than_an_uncached_epoch(cold_ms, share):
    later = (60.0, 20.0)  # stall and compute, ms
    found = judge_claims("sigmetrics", CLAIM, planted([point(later, cold=(cold_ms, 20.0), workers=0)]), Origin.MEASURED)
    (bound,) = found[0].evidence[0].bounds
    assert bound.name == "gained by caching, of an uncached epoch"
    assert bound.value == pytest.approx(share, abs=0.02) and bound.hi < 1
