"""The paper's tables and figures as data: what to run, at which scale, and what the paper found."""
