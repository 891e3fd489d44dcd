"""The tasks of the paper's classification benchmarks, and the data they are made of."""
