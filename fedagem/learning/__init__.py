"""The paper in plain PyTorch: buffers, methods, the client update, the metrics."""

LEARNING_VERSION = 3
"""Raise it whenever the same plan and seed give other numbers, also if only a default changes or the fault is in the
data or the detector: runs, warm-ups, checkpoints and model files of an earlier version are then not taken for new ones.
"""
