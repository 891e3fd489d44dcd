"""What somebody who receives gradients can see of the samples that they were computed from."""
