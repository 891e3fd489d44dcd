"""Fed-A-GEM in plain PyTorch: buffers, gradient refinement, methods, task streams and metrics."""
