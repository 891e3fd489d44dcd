"""The paper in plain PyTorch: buffers, methods, the client update, the metrics."""
