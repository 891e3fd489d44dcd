"""How a collaborator reaches its aggregator: over mutual TLS, or directly in a simulation."""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import grpc
from openfl.pipelines.pipeline import TransformationPipeline
from openfl.protocols import aggregator_pb2, utils
from openfl.transport.grpc.aggregator_client import AggregatorGRPCClient
from openfl.transport.grpc.common import create_header
from openfl.utilities import TensorKey

from fedagem.errors import FedAGemError, FederationError
from src.task_results import Array

if TYPE_CHECKING:
    from src.aggregator import StagedAggregator

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RPC_SECONDS = 300.0
"""No answer takes longer; a connection that hangs is given up and made again."""


STOPPED = "The federation stopped: "
"""How the aggregator's last sentence begins, which collaborators repeat."""


class AnswerError(Exception):
    """An answer of the aggregator that the collaborator acts upon.

    OpenFL's server turns every exception into the same status and its text, so the text begins with a code.
    """

    code: ClassVar[str]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"[{self.code}] {self.reason}"


class ResultRefusedError(AnswerError):
    """A result that must not reach the model; the collaborator learns why."""

    code = "result-refused"


class StaleTaskError(AnswerError):
    """A task asks for a tensor of a stage that is over, or that a restarted aggregator has yet to repeat."""

    code = "stale-task"


def log_answers_in_a_line() -> None:
    """Keep gRPC from logging a traceback for every answer that is an exception; those of mistakes in the code stay."""
    logging.getLogger("grpc._server").addFilter(_without_traceback_of_answers)


def _without_traceback_of_answers(record: logging.LogRecord) -> bool:
    problem = record.exc_info[1] if record.exc_info else None
    cause = problem.__cause__ if problem else None
    answers = AnswerError | FedAGemError
    if isinstance(problem, answers) and (cause is None or isinstance(cause, FedAGemError | OSError)):
        record.exc_info = record.exc_text = None
    return True


def answer_in(details: str) -> AnswerError | None:
    """The answer that a text from the wire stands for; None if it is something else."""
    for kind in (ResultRefusedError, StaleTaskError):
        if details.startswith(prefix := f"[{kind.code}] "):
            return kind(details.removeprefix(prefix))
    return None


class Link(Protocol):
    """The three things a collaborator asks of an aggregator."""

    def get_tasks(self) -> tuple[list[str], int, int, bool]:
        """Outstanding tasks, the round, whether to sleep (if not 0) before asking again, and whether to quit."""

    def fetch(self, name: str, round_number: int, kind: tuple[str, ...]) -> Array:
        """An aggregated tensor; raises StaleTaskError if there is none, or not yet again."""

    def send(self, round_number: int, task: str, tensors: dict[TensorKey, Array]) -> None:
        """Deliver a task's result; raises ResultRefusedError if it is not accepted."""


class LocalLink:
    """A direct call into an aggregator of the same process; arrays are handed over without serialisation."""

    def __init__(self, aggregator: "StagedAggregator", collaborator: str) -> None:
        self._aggregator = aggregator
        self._collaborator = collaborator

    def get_tasks(self) -> tuple[list[str], int, int, bool]:
        tasks, round_number, sleep_seconds, quit_now = self._aggregator.get_tasks(self._collaborator)
        return tasks or [], round_number, sleep_seconds, quit_now

    def fetch(self, name: str, round_number: int, kind: tuple[str, ...]) -> Array:
        return self._aggregator.lookup(name, round_number, kind, self._collaborator)

    def send(self, round_number: int, task: str, tensors: dict[TensorKey, Array]) -> None:
        self._aggregator.receive(self._collaborator, round_number, task, tensors)


class GrpcLink:
    """OpenFL's gRPC client with bounded patience: a collaborator that cannot join ends with the reason."""

    def __init__(
        self,
        client: AggregatorGRPCClient,
        pipeline: TransformationPipeline,
        connect_seconds: float,
        retry_seconds: float,
    ) -> None:
        self._client = client
        self._pipeline = pipeline
        self._patience = connect_seconds
        self._retry_seconds = retry_seconds
        self._header = create_header(
            sender=client.collaborator_name,
            receiver=client.aggregator_uuid,
            federation_uuid=client.federation_uuid,
            single_col_cert_common_name=client.single_col_cert_common_name,
        )

    def get_tasks(self) -> tuple[list[str], int, int, bool]:
        request = aggregator_pb2.GetTasksRequest(header=self._header)
        reply = self._call(lambda stub: stub.GetTasks(request, timeout=_RPC_SECONDS))
        return [task.name for task in reply.tasks], reply.round_number, reply.sleep_time, reply.quit

    def fetch(self, name: str, round_number: int, kind: tuple[str, ...]) -> Array:
        request = aggregator_pb2.GetAggregatedTensorRequest(
            header=self._header,
            tensor_name=name,
            round_number=round_number,
            report=False,
            tags=kind,
            require_lossless=True,
        )
        tensor = self._call(lambda stub: stub.GetAggregatedTensor(request, timeout=_RPC_SECONDS)).tensor
        metadata = [{"int_list": proto.int_list} for proto in tensor.transformer_metadata]
        array: Array = self._pipeline.backward(tensor.data_bytes, metadata)
        return array

    def send(self, round_number: int, task: str, tensors: dict[TensorKey, Array]) -> None:
        named = []
        for key, array in tensors.items():
            data, metadata = self._pipeline.forward(array)
            wire_key = TensorKey(key.tensor_name, key.origin, key.round_number, key.report, (*key.tags, "compressed"))
            named.append(utils.construct_named_tensor(wire_key, data, metadata, lossless=True))
        request = aggregator_pb2.TaskResults(
            header=self._header, round_number=round_number, task_name=task, data_size=0, tensors=named
        )
        self._call(lambda stub: stub.SendLocalTaskResults(utils.proto_to_datastream(request), timeout=_RPC_SECONDS))

    def _call(self, rpc: Callable[[Any], T]) -> T:
        """Call once; while the aggregator is out of reach, try again until patience is over."""
        began = time.monotonic()
        while True:
            try:
                answer = rpc(self._client.stub)
                self._patience = self._retry_seconds
                return answer
            except grpc.RpcError as error:
                self._raise_unless_temporary(error, time.monotonic() - began)
                self._client.reconnect()
                self._client.sleeping_policy.sleep()

    def _raise_unless_temporary(self, error: grpc.RpcError, waited: float) -> None:
        details = str(error.details()).removeprefix("Exception calling application: ")
        where = f"the aggregator at {self._client.uri}"
        if (answer := answer_in(details)) is not None:
            raise answer from error
        if details.startswith(STOPPED):
            raise FederationError(details) from error
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            raise FederationError(
                f"{where} does not admit {self._client.collaborator_name!r} ({details}): certify this collaborator "
                "there (fx collaborator certify) and use the certificate made for this name."
            ) from error
        if "Federation UUID" in details or "aggregator UUID" in details:
            raise FederationError(
                f"{where} runs another plan: plan/plan.yaml must be the same file on every node ({details})."
            ) from error
        if error.code() not in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
            raise FederationError(f"{where} answered {error.code().name}: {details}.") from error
        if waited > self._patience:
            raise FederationError(
                f"{where} could not be reached for {waited:.0f} s ({details}): check that it runs, that "
                "network.settings.agg_addr and agg_port are right, and that the certificates are of one federation."
            ) from error
        logger.warning("Waiting for %s: %s", where, details)
