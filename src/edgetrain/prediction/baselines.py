"""Baselines for comparison: the SIGMETRICS linear models, a Gaussian process, a transferred neural network.

Each sees exactly the modes that our own method sees. They are built to do as well as they can: the process and the
network work on logarithms, which the published ones do not, because it makes both better.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.prediction.base import Array, ModeTable, Predictions, results
from edgetrain.prediction.evaluate import PredictionMethod
from edgetrain.units import HZ_PER_MHZ


def _raw(table: ModeTable) -> Array:
    """Return cores, clocks in MHz as the SIGMETRICS linear model uses them, and the batch size.

    A clock that the board does not have is a constant column, which no baseline uses.
    """
    clocks = (table.cpu_hz, table.gpu_hz, table.emc_hz)
    columns = [table.cores, *(np.where(np.isnan(clock), HZ_PER_MHZ, clock) / HZ_PER_MHZ for clock in clocks)]
    if table.batch_size is not None:
        columns.append(table.batch_size)
    return np.stack(columns, axis=1)


def _without_intervals(time_s: Array, power_w: Array) -> Predictions:
    """Return predictions of a method that gives no interval."""
    tiny = np.full(len(time_s), 1e-9)
    return Predictions(time_s, None, power_w, tiny, tiny, 0.0, 30.0, np.zeros(len(time_s), dtype=bool))


@dataclass(frozen=True, slots=True)
class _FunctionPredictor:
    """A predictor made of one function."""

    function: Callable[[ModeTable], Predictions]

    def predict(self, modes: ModeTable) -> Predictions:
        return self.function(modes)


def _line(x: Array, y: Array) -> Callable[[Array], Array]:
    """Fit least squares; where there are too few rows, with the smallest slopes. The constant is always free."""
    middle, height = x.mean(axis=0), y.mean()
    slopes = np.linalg.lstsq(x - middle, y - height, rcond=None)[0]
    return lambda at: np.asarray((at - middle) @ slopes + height)


def linear_model() -> PredictionMethod:
    """The SIGMETRICS models: time linear in cores and MHz, energy linear in time times each of them.

    Under-determined fits (fewer modes than coefficients) take the minimum-norm solution, as in the paper.
    """

    def fit(profiled: ModeTable, board: ModeTable, seed: int) -> _FunctionPredictor:
        x = _raw(profiled)
        time_s, power_w = results(profiled)
        joules = time_s * power_w
        t, e = _line(x, time_s), _line(x * time_s[:, None], joules)

        def predict(modes: ModeTable) -> Predictions:
            at = _raw(modes)
            # A straight line can fall below zero; a small positive value favours the baseline.
            times = np.maximum(t(at), 0.05 * time_s.min())
            energies = e(at * times[:, None])
            return _without_intervals(times, np.maximum(energies, 0.05 * joules.min()) / times)

        return _FunctionPredictor(predict)

    return PredictionMethod("linear", fit, has_intervals=False)


def gaussian_process() -> PredictionMethod:
    """A scikit-learn Gaussian process on the logarithms, one length per clock, fitted by marginal likelihood."""
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    except ImportError as error:
        raise UsageError(
            "the Gaussian process baseline needs scikit-learn: pip install edgetrain[baselines]"
        ) from error

    def fit(profiled: ModeTable, board: ModeTable, seed: int) -> _FunctionPredictor:
        x = np.log(_raw(profiled))
        centre, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 0.1)
        fitted = []
        for y in (np.log(column) for column in results(profiled)):
            kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(np.ones(x.shape[1]), (0.1, 50.0), nu=2.5)
            kernel += WhiteKernel(1e-3, (1e-6, 0.1))
            process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # lengths at their bounds: five modes do not determine five lengths
                fitted.append(process.fit((x - centre) / scale, y))

        def predict(modes: ModeTable) -> Predictions:
            at = (np.log(_raw(modes)) - centre) / scale
            (t, t_sd), (p, p_sd) = (process.predict(at, return_std=True) for process in fitted)
            outside = np.zeros(len(modes), dtype=bool)
            return Predictions(np.exp(t), None, np.exp(p), t_sd, p_sd, 0.0, 200.0, outside)

        return _FunctionPredictor(predict)

    return PredictionMethod("gaussian_process", fit)


def transferred_network(reference: ModeTable, seed: int = 0) -> PredictionMethod:
    """A neural network like PowerTrain's: trained on one network's table, then transferred with the profiled modes.

    As published: inputs scaled, layers 256, 128, 64, a new last layer fitted first, then all with a smaller step.
    Unlike the published one it works on logarithms and is robust to outliers, which makes it better.
    """
    try:
        import torch
    except ImportError as error:
        raise UsageError("the transferred network needs torch: pip install edgetrain[torch]") from error
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    x = np.log(_raw(reference))
    low, high = x.min(axis=0), x.max(axis=0)
    y = np.stack([np.log(column) for column in results(reference)], axis=1)
    centre, scale = y.mean(axis=0), y.std(axis=0)

    def inputs(table: ModeTable) -> Any:
        span = np.where(high > low, high - low, 1.0)
        return torch.tensor((np.log(_raw(table)) - low) / span * 2.0 - 1.0, dtype=torch.float32)

    def built() -> Any:
        layers: list[Any] = []
        for one, two in zip((x.shape[1], 256, 128), (256, 128, 64), strict=True):
            layers += [torch.nn.Linear(one, two), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.Linear(64, 2))

    def train(model: Any, parameters: Any, features: Any, targets: Any, steps: int, rate: float) -> None:
        optimizer = torch.optim.Adam(parameters, lr=rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            rows = torch.randint(len(features), (256,)) if len(features) > 256 else slice(None)
            loss = torch.nn.functional.smooth_l1_loss(model(features[rows]), targets[rows], beta=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    base = built()
    known = torch.tensor((y - centre) / scale, dtype=torch.float32)
    train(base, base.parameters(), inputs(reference), known, 3000, 3e-3)

    def fit(profiled: ModeTable, board: ModeTable, fit_seed: int) -> _FunctionPredictor:
        torch.manual_seed(fit_seed)
        model = built()
        model.load_state_dict(base.state_dict())
        features = inputs(profiled)
        logs = np.stack([np.log(column) for column in results(profiled)], axis=1)
        shift = logs.mean(axis=0) - centre
        model[-1] = torch.nn.Linear(64, 2)
        targets = torch.tensor((logs - shift - centre) / scale, dtype=torch.float32)
        train(model, model[-1].parameters(), features, targets, 300, 1e-2)
        train(model, model.parameters(), features, targets, 300, 1e-3)

        def predict(modes: ModeTable) -> Predictions:
            with torch.no_grad():
                out = model(inputs(modes)).numpy().astype(float) * scale + centre + shift
            return _without_intervals(np.exp(out[:, 0]), np.exp(out[:, 1]))

        return _FunctionPredictor(predict)

    return PredictionMethod("network", fit, has_intervals=False)
