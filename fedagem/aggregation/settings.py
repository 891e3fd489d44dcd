"""How the results of a stage become one: by plain means, weighted or not, by robust ones, or with noise."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from fedagem.errors import PlanError
from fedagem.settings import Settings

G_REF = "g_ref"
"""The global buffer gradient, the one exchange of which more is known than that it is added up."""

BufferWeighting = Literal["uniform", "buffer", "seen", "sqrt_buffer", "sqrt_seen"]
"""By what the buffer gradients of clients are weighted: alike, by the samples held, or by those ever offered."""


class RobustMean(Settings):
    """A mean that a few clients cannot move far, whatever they send."""

    kind: Literal["mean", "trimmed_mean", "median", "clipped_mean"]
    """`trimmed_mean` leaves the largest and the smallest values of each coordinate out, `median` takes the middle one,
    `clipped_mean` shortens what is longer than usual before it is averaged, and `mean` is the plain mean."""
    trim: float = Field(0.2, gt=0, lt=0.5)
    """Of `trimmed_mean`: the share of the clients, rounded up, whose values are left out at either end."""
    clip: float = Field(1.0, gt=0)
    """Of `clipped_mean`: how long a client's contribution may be, in multiples of the median length."""


class RobustSettings(RobustMean):
    """Robust means of the model and of g_ref: of both alike, or each its own."""

    model: RobustMean | None = None
    """What the models are averaged by, if it is not the same as for g_ref."""
    g_ref: RobustMean | None = None
    """What the buffer gradients are averaged by, if it is not the same as for the model."""

    @property
    def of_model(self) -> RobustMean:
        """How models are averaged."""
        return self.model or self

    @property
    def of_g_ref(self) -> RobustMean:
        """How buffer gradients are averaged."""
        return self.g_ref or self


class PrivacySettings(Settings):
    """Differential privacy of clients: what one of them did hardly changes what the federation releases."""

    model_clip: float = Field(gt=0, le=1024)
    """How long the change of the whole model by a client may be in a round; longer ones are shortened to it."""
    g_ref_clip: float = Field(1.0, gt=0, le=1024)
    """How long a client's buffer gradient may be; with Fed-A-GEM, only the direction of their mean matters."""
    noise: float = Field(gt=0, le=1000)
    """The standard deviation of the noise in each coordinate of a sum over the clients, in multiples of the clip."""
    delta: float = Field(1e-5, gt=0, lt=1)
    """The probability with which epsilon may be exceeded."""


class Means(Settings):
    """What the aggregator makes of the results of a stage."""

    weighting: Literal["uniform", "samples"] = "uniform"
    """Whether all clients count the same, as in the paper, or by their number of samples."""
    buffer_weighting: BufferWeighting | None = None
    """What the buffer gradients count by: `uniform`, all alike; `buffer`, by the samples that each client holds;
    `seen`, by those that it was ever offered; or by the square root of either. Without it, as `weighting` says."""
    robust: RobustSettings | None = None
    """Means that a few clients cannot move far, whatever they send; without it, means are plain."""
    privacy: PrivacySettings | None = None
    """Differential privacy: clients limit what they send, and the aggregator adds noise to every sum."""

    @model_validator(mode="after")
    def _fits_together(self) -> "Means":
        self._check_robust()
        self._check_privacy()
        return self

    def _check_robust(self) -> None:
        if self.robust is not None and self.weighting == "samples":
            raise PlanError(
                "aggregator.settings.robust needs aggregator.settings.weighting: uniform: a client that says it has "
                "many samples would count as many clients."
            )
        if self.robust is not None and self.robust.of_g_ref.kind != "mean" and self.weighs_buffers:
            raise PlanError(
                f"aggregator.settings.buffer_weighting is {self.buffer_weighting}, but in a robust mean of g_ref all "
                "clients count alike: set robust.g_ref to {kind: mean}, or leave one of the two out."
            )

    def _check_privacy(self) -> None:
        if self.privacy is None:
            return
        if self.weighting == "samples" or self.weighs_buffers:
            chosen = "weighting" if self.weighting == "samples" else "buffer_weighting"
            raise PlanError(
                f"aggregator.settings.privacy needs aggregator.settings.{chosen}: uniform: the noise hides a client "
                "that counts once, and a weight tells how much data it has."
            )
        if self.robust is not None:
            raise PlanError(
                "aggregator.settings.privacy and aggregator.settings.robust exclude each other: the noise is for a sum "
                "of contributions of limited length, which is what a clipped mean would be already."
            )

    @property
    def weighs_buffers(self) -> bool:
        """Whether clients say how much their buffer gradient counts."""
        return self.buffer_weighting not in {None, "uniform"}

    def check_exchanges(self, names: Iterable[str]) -> None:
        """Refuse a method that exchanges something else than g_ref if only models and g_ref are taken care of."""
        others = [name for name in names if name != G_REF]
        for setting in ("robust", "privacy"):
            if others and getattr(self, setting) is not None:
                raise PlanError(
                    f"aggregator.settings.{setting} is for the model and g_ref, but the method exchanges {others[0]!r} "
                    f"too, which would be added up as it is: choose another method, or leave {setting} out."
                )
