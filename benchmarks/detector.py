"""What detection costs around the bare network: a training step, the replay buffer, and an evaluation.

The variants take turns, time is the process's own CPU time, and each variant's quietest turn counts, so that a busy
machine changes the ratios little. Bare means: frames of bytes into the network, and backward from its output.
The network is the one of the CARLA plans: TinyYOLO at a quarter of its width, 416 x 256 pixels, one thread.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from torchvision.ops import box_convert

from benchmarks.measurement import Measurement
from fedagem.detection.footage import NamedFrame
from fedagem.detection.inference import RANKED_CONFIDENCE, ScoringBatch, Stopwatch, score, scoring_batches
from fedagem.detection.objective import DetectionObjective
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.method import Method
from fedagem.learning.refinement import Refinement
from models.tiny_yolo import TinyYolo
from models.yolo_decode import detect

_TURNS = 15
_BATCH = 8
_FRAMES = 192
_CLASSES = ("vehicle", "bike", "motobike", "traffic_light", "traffic_sign")
_ANCHORS = ((0.11, 0.236), (0.476, 0.491), (1.468, 0.724), (1.187, 2.293), (3.335, 2.792))
_SIZE = (416, 256)


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    _training_step()
    _buffer_size()
    _evaluation()


def _training_step() -> None:
    generator = torch.Generator().manual_seed(0)
    batch = _batch(generator)
    plain = _learner(generator, augmentation=None)
    augmented = _learner(generator, augmentation={"zoom": 0.0})
    der = _learner(generator, augmentation=None)
    _fill(der, batch, generator)
    model = plain.model.module

    def bare(passes: int) -> None:
        plain.gradient.zero_()
        outputs = [plain.objective.logits(model, batch).square().mean() for _ in range(passes)]
        torch.stack(outputs).sum().backward()  # type: ignore[no-untyped-call]

    def step(learner: Learner, method: Method) -> Callable[[], object]:
        optimizer = torch.optim.SGD([learner.model.weights], lr=1e-5, momentum=0.9)
        learner.received = {"g_ref": -torch.randn(learner.model.size, generator=generator)}
        refined = FedAGEM(method, Refinement(when="always"))
        return lambda: client_update(learner, [batch], refined, optimizer)

    variants: dict[str, Callable[[], object]] = {
        "bare": lambda: bare(1),
        "bare twice": lambda: bare(2),
        "step": step(plain, FedAvg()),
        "augmented": step(augmented, FedAvg()),
        "der": step(der, DER(replay_batch=_BATCH)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(_TURNS + 2):
        for name, run in variants.items():
            began = time.process_time()
            run()
            if turn >= 2:
                seconds[name].append(time.process_time() - began)
    least = {name: min(values) for name, values in seconds.items()}
    print({name: f"{1e3 * value:.0f} ms" for name, value in least.items()})
    step_ratio = least["step"] / least["bare"]
    Measurement("training step / bare forward and backward, every batch projected", step_ratio, "x", 1.15).show()
    Measurement("the same with augmentation (mirror, colour)", least["augmented"] / least["bare"], "x", 1.3).show()
    # DER passes its replayed samples through the network too: as many again as the batch has.
    Measurement("DER step / two bare passes", least["der"] / least["bare twice"], "x", 1.15).show()


def _buffer_size() -> None:
    generator = torch.Generator().manual_seed(0)
    learner = _learner(generator, augmentation=None)
    batch = _batch(generator)
    _fill(learner, batch, generator)
    megabytes = sum(values.nbytes for values in learner.buffer.contents().values()) / 1e6
    Measurement("buffer of 200 frames at 416 x 256 with logits", megabytes, "MB", 100.0).show()


def _evaluation() -> None:
    random = np.random.default_rng(0)
    frames = []
    for number in range(_FRAMES):
        boxes = np.stack([random.uniform(10, 500, 6), random.uniform(10, 300, 6), *random.uniform(8, 60, (2, 6))], 1)
        image = random.integers(0, 256, (380, 640, 3), dtype=np.uint8)
        frames.append(NamedFrame(image, str(number), boxes.astype(np.float32), random.integers(0, 5, 6)))
    model = TinyYolo(classes=_CLASSES, anchors=_ANCHORS, input_size=_SIZE, width=0.25)
    objective = DetectionObjective(anchors=_ANCHORS)
    batches = list(scoring_batches(frames, _SIZE))
    seconds: dict[str, list[float]] = {"inference": [], "evaluation": [], "torchmetrics": [], "draws": []}
    for _ in range(3):
        watch = Stopwatch(clock=time.process_time)
        scored = score(model, objective, batches, watch)
        scored.overall.scores()
        for stage in ("inference", "evaluation"):
            seconds[stage].append(watch.seconds[stage])
        began = time.process_time()
        scored.overall.resampled(seed=0)
        seconds["draws"].append(time.process_time() - began)
        seconds["torchmetrics"].append(_torchmetrics_seconds(model, objective, batches))
    least = {name: min(values) for name, values in seconds.items()}
    print({name: f"{1e3 * value / _FRAMES:.2f} ms/frame" for name, value in least.items()})
    # An untrained network detects something nearly everywhere: the most work that an evaluation can have.
    Measurement("evaluation on top of inference", least["evaluation"] / least["inference"], "x", 0.25).show()
    Measurement("evaluation / the same with torchmetrics", least["evaluation"] / least["torchmetrics"], "x", 0.5).show()
    Measurement("a thousand draws of the frames / inference", least["draws"] / least["inference"], "x", 0.25).show()


def _torchmetrics_seconds(model: TinyYolo, objective: DetectionObjective, batches: list[ScoringBatch]) -> float:
    """What detections and their mAP cost if torchmetrics compares them with the truth."""
    from torchmetrics.detection import MeanAveragePrecision

    anchors = torch.tensor(objective.anchors)
    metric = MeanAveragePrecision(extended_summary=True, backend="faster_coco_eval")
    metric.warn_on_many_detections = False
    with torch.inference_mode():
        heads = [objective.logits(model.eval(), part.batch) for part in batches]
    began = time.process_time()
    for part, head in zip(batches, heads, strict=True):
        found = detect(head, anchors, confidence=RANKED_CONFIDENCE, overlap=objective.thresholds.overlap)
        images = range(len(part.batch["x"]))
        seen = [
            (found.boxes[mine], found.scores[mine], found.labels[mine]) for mine in (found.image == n for n in images)
        ]
        truth = [rows[rows[:, 0] >= 0] for rows in part.batch["boxes"]]
        metric.update(
            [{"boxes": part.letterbox.to_frame(b), "scores": s, "labels": c} for b, s, c in seen],
            [
                {
                    "boxes": part.letterbox.to_frame(box_convert(rows[:, 1:], "cxcywh", "xyxy")),
                    "labels": rows[:, 0].long(),
                }
                for rows in truth
            ],
        )
    metric.compute()
    return time.process_time() - began


def _learner(generator: torch.Generator, augmentation: dict[str, float] | None) -> Learner:
    model = FlatModel(TinyYolo(classes=_CLASSES, anchors=_ANCHORS, input_size=_SIZE, width=0.25))
    objective = DetectionObjective(anchors=_ANCHORS, augmentation=augmentation)
    return Learner(model, objective, ReplayBuffer(200), generator)


def _fill(learner: Learner, batch: Batch, generator: torch.Generator) -> None:
    """A buffer as DER keeps it: whole from the first step on, because only a full one costs a full replay."""
    with torch.no_grad():
        sample = {**batch, "logits": learner.objective.restore_logits(learner.logits(batch), batch)}
    while len(learner.buffer) < learner.buffer.capacity:
        learner.buffer.add(sample, generator)


def _batch(generator: torch.Generator) -> Batch:
    boxes = torch.full((_BATCH, 50, 5), -1.0)
    boxes[:, :6, 0] = torch.randint(5, (_BATCH, 6), generator=generator).float()
    boxes[:, :6, 1:3] = torch.rand((_BATCH, 6, 2), generator=generator)
    boxes[:, :6, 3:] = 0.01 + 0.2 * torch.rand((_BATCH, 6, 2), generator=generator)
    x = torch.randint(256, (_BATCH, 3, 256, 416), dtype=torch.uint8, generator=generator)
    return {"x": x, "boxes": boxes}


if __name__ == "__main__":
    main()
