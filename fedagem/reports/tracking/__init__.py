"""A run in somebody's experiment tracker: parameters, metrics by round and client, pictures and model files."""

TRACKERS = ("mlflow", "wandb", "tensorboard")
