"""A drive that is recorded once and replayed by every run that needs it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedagem.plans.plan import digest_of


@dataclass(frozen=True)
class Drive:
    """What is driven, for how long, and where its frames are kept."""

    title: str
    carla: dict[str, Any]
    """The `carla` section that the bridge follows."""
    seconds: float
    jpeg_quality: int | None
    folder: str
    """Where recordings are kept, this one under a name that follows from its settings."""

    @property
    def place(self) -> Path:
        """The folder of the recording: other settings, another folder."""
        recipe = {"carla": self.carla, "seconds": self.seconds, "jpeg_quality": self.jpeg_quality}
        return (Path(self.folder).expanduser() / f"{self.title}-{digest_of(recipe)}").resolve()

    @property
    def recorded(self) -> bool:
        """Whether the recording is complete."""
        return (self.place / "recording.json").exists()

    @property
    def has_its_own_server(self) -> bool:
        """Whether a simulator is started for it alone; a server that was there before has one world for all."""
        return self.carla.get("simulator") == "embedded"
