"""The same work without this project: bare PyTorch, and Flower's simulation."""
