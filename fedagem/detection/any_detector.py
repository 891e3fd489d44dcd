"""The objective of detectors that know their own loss: SSDLite, or one's own network."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from fedagem.detection.objective import FrameObjective, FrameSettings
from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.settings import parse_settings
from models.detections import Candidates
from models.detector import AnyDetector


class DetectorObjective(FrameObjective):
    """Asks the network itself for losses and candidates; its raw outputs are the logits.

    How outputs of a mirror image relate to those of the image is the network's secret, so that methods which store
    outputs train without mirror images here.
    """

    Settings: ClassVar[type[BaseModel]] = FrameSettings

    def __init__(self, **settings: Any) -> None:
        """The settings are `FrameSettings`, in the plain values of a plan."""
        super().__init__(parse_settings(FrameSettings, settings, "task_runner.settings.objective.settings"))
        self._network: AnyDetector | None = None

    @property
    def network(self) -> AnyDetector:
        """The network that outputs come from; only its structure is used."""
        assert self._network is not None, "attach comes first"
        return self._network

    def attach(self, network: nn.Module) -> None:
        if not isinstance(network, AnyDetector):
            raise PlanError(
                f"task_runner.settings.model makes a {type(network).__name__}, but this objective is for networks that "
                "are a models.detector.AnyDetector."
            )
        self._network = network

    def logits(self, model: nn.Module, batch: Batch) -> Any:
        return model(self.images(batch), batch.get("boxes"))

    def losses(self, logits: Any, batch: Batch) -> dict[str, Tensor]:
        return self.network.losses(logits, batch["boxes"])

    def candidates(self, raw: Any) -> Candidates:
        return self.network.candidates(raw)

    def augment(self, batch: Batch, generator: torch.Generator) -> Batch:
        return self.augmentation(batch, generator, anchors=0)

    def check_stores_logits(self) -> None:
        name = type(self.network).__name__
        if not self.network.fixed_head:
            raise PlanError(
                f"this method stores the outputs of the network, but those of {name} have no fixed size: use fedavg, "
                "agem, er or ideal, with or without Fed-A-GEM."
            )
        if self.augmentation.flip > 0:
            raise PlanError(
                f"a method that stores logits cannot use flip {self.augmentation.flip} with {name}: its outputs cannot "
                "be mirrored; set the augmentation's flip to 0."
            )
        self.refuse_zoom()

    def restore_logits(self, logits: Tensor, view: Batch) -> Tensor:
        return logits.half()
