"""A protected stage on a collaborator: answers the steps of secure aggregation, and masks the results of its tasks."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from openfl.transport.grpc.aggregator_client import AggregatorGRPCClient
from openfl.utilities import TensorKey

from fedagem.aggregation.ring import OutOfRangeError
from fedagem.plans.federation import FederatedTask
from fedagem.plans.plan import Plan
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.identity import CertificateSigner, Signer, Verifier
from fedagem.secagg.member import Evidence, Material, Member
from fedagem.secagg.messages import Call, Refusal
from fedagem.secagg.settings import SecureAggregation
from src.global_model import fingerprint
from src.link import Link
from src.secure_steps import BULLETIN, MAIL, MESSAGE, REFUSAL, SETUP, federation_verifier
from src.secure_sums import SumShape, counted_in
from src.task_results import MASKED, METRIC, MODEL, SECAGG, Array, Expected, find_fault, split_by_kind

logger = logging.getLogger(__name__)

Tensors = dict[TensorKey, Array]

_LONGEST_REASON = 250


class SecureClient:
    """What a collaborator does for secure aggregation; the protocol itself is `fedagem.secagg.member`."""

    def __init__(
        self, name: str, plan: Plan, settings: SecureAggregation, link: Link, signer: Signer, verifier: Verifier
    ) -> None:
        self._name = name
        self._plan = plan
        self._settings = settings
        self._link = link
        self._member = Member(name, plan.origin, settings, signer, verifier, Path("local_state") / name / "secagg")
        self._stages = {
            task: stage.name for stage in plan.rounds.stages if stage.name in settings.stages for task in stage.tasks
        }
        self._material: Material | None = None

    @classmethod
    def of_collaborator(
        cls, name: str, plan: Plan, settings: SecureAggregation, link: Link, client: AggregatorGRPCClient
    ) -> "SecureClient":
        """With the certificate of a collaborator that was started by `fx`."""
        signer = CertificateSigner(Path(client.private_key), Path(client.certificate))
        return cls(name, plan, settings, link, signer, federation_verifier(plan, settings))

    def is_step(self, task: str) -> bool:
        """Whether a task is a step of the protocol and not one of the plan's."""
        stage, _, phase = task.rpartition(":")
        return phase in {"keys", "shares", "agree", "open"} and stage in {SETUP, *self._stages.values()}

    def protects(self, task: str) -> bool:
        """Whether the results of a task of the plan are masked."""
        return task in self._stages

    def answer(self, task: str, round_number: int) -> Tensors:
        """What is sent for a step: a message, or the reason why there is none."""
        stage, _, phase = task.rpartition(":")
        return self._message(round_number, lambda: self._step(stage, phase, round_number))

    def protect(
        self,
        task: str,
        chosen: FederatedTask,
        round_number: int,
        inputs: Mapping[TensorKey, Array],
        result: Tensors,
        exchanges: list[Any],
    ) -> Tensors:
        """A task's result as masked vectors with their header; of metrics, only what the aggregator may see."""
        kinds = split_by_kind(result)
        model = {key.tensor_name: array for key, array in inputs.items() if key.tags == MODEL}
        others = {f"{key.tags[0]}/{key.tensor_name}": array for key, array in inputs.items() if key.tags != MODEL}
        model_round = round_number + (chosen.kwargs.after_rounds or 0)
        evidence = Evidence(_digest(model), model_round, _digest(others))
        vectors: dict[int, Array] = {}

        def mask() -> bytes:
            material = self._fetch_material(round_number)
            asked = Expected(model, tuple(exchanges)).asked_of(chosen)
            shape = SumShape(
                chosen.function,
                asked,
                len(Call.decode(material.call).members),
                self._plan.aggregator.weighting,
                self._settings,
                counted_in(self._plan),
            )
            fault = "it has no result" if not result else find_fault(kinds, asked) or shape.fault_of(kinds)
            try:
                encoded, contributes = shape.encode(None if fault else kinds)
            except OutOfRangeError as problem:
                fault = str(problem)
                encoded, contributes = shape.encode(None)
            if fault:
                logger.error("Round %s: %s contributes nothing to %s: %s", round_number, self._name, task, fault)
            stage = self._stages[task]
            header = self._member.mask(material, round_number, stage, evidence, encoded, contributes)
            vectors.update(encoded)
            return header

        sent = self._message(round_number, mask)
        sent |= {_key(f"ring{bits}", round_number, MASKED): vector for bits, vector in vectors.items()}
        if self._settings.metrics == "each":
            sent |= {key: array for key, array in result.items() if key.tags == METRIC}
        return sent

    def _step(self, stage: str, phase: str, round_number: int) -> bytes:
        if phase == "keys":
            return self._member.join(self._fetch("call", round_number))
        if phase == "shares":
            return self._member.deal(self._fetch("call", round_number), self._fetch(BULLETIN, round_number))
        material = self._fetch_material(round_number)
        headers = self._fetch("headers", round_number)
        if phase == "agree":
            return self._member.agree(material, round_number, stage, headers)
        agreements = self._fetch("agreements", round_number)
        return self._member.open(material, round_number, stage, headers, agreements)

    def _message(self, round_number: int, make: Callable[[], bytes]) -> Tensors:
        try:
            name, message = MESSAGE, make()
        except ProtocolError as problem:
            logger.error("Round %s: %s does not go on with secure aggregation: %s", round_number, self._name, problem)
            name, message = REFUSAL, Refusal(self._name, str(problem)[:_LONGEST_REASON]).encode()
        return {_key(name, round_number, SECAGG): np.frombuffer(message, np.uint8)}

    def _fetch_material(self, round_number: int) -> Material:
        """A setup's messages: fetched once, and again only for another setup."""
        call = self._fetch("call", round_number)
        if self._material is None or self._material.call != call:
            self._material = Material(call, self._fetch(BULLETIN, round_number), self._fetch(MAIL, round_number))
        return self._material

    def _fetch(self, name: str, round_number: int) -> bytes:
        return self._link.fetch(name, round_number, SECAGG).tobytes()


def _digest(tensors: Mapping[str, Array]) -> bytes:
    return bytes.fromhex(fingerprint(tensors))


def _key(name: str, round_number: int, kind: tuple[str, ...]) -> TensorKey:
    return TensorKey(name, "LOCAL", round_number, False, kind)
