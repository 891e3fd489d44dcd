"""Secure aggregation: the aggregator learns the sum of the clients' vectors, and nothing about a single one."""
