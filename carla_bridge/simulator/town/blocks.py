"""The city's blocks: the rectangles between the streets, measured to the outer edge of their pavements."""

from dataclasses import dataclass

from carla_bridge.simulator.town.layout import COLUMNS, ROWS, SIDEWALK, half_carriageway, row_kind
from carla_bridge.simulator.town.road_network import RoadKind


@dataclass(frozen=True)
class Block:
    """Ground inside the pavements; `column` and `row` count from the north-west."""

    column: int
    row: int
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2


def city_blocks() -> list[Block]:
    """All blocks, row by row."""
    aside = half_carriageway(RoadKind.STREET) + SIDEWALK.width
    blocks: list[Block] = []
    for row in range(len(ROWS) - 1):
        top = ROWS[row] + half_carriageway(row_kind(row)) + SIDEWALK.width
        bottom = ROWS[row + 1] - half_carriageway(row_kind(row + 1)) - SIDEWALK.width
        for column in range(len(COLUMNS) - 1):
            left, right = COLUMNS[column] + aside, COLUMNS[column + 1] - aside
            blocks.append(Block(column, row, left, top, right, bottom))
    return blocks
