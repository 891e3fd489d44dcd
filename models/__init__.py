"""Networks and their losses."""
