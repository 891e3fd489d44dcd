"""Object detection on driving frames: samples, objective, evaluation and pictures around TinyYOLO."""
