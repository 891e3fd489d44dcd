"""What a run's differential privacy is worth, in words."""

from fedagem.runs.results import Results

_WEAK = 10.0
"""From this epsilon on, an outcome may be more than 20,000 times as likely with a client as without it."""


def privacy_note(results: Results) -> str:
    """The epsilon of a run, and whether it means anything; empty without differential privacy."""
    if not (account := results.privacy):
        return ""
    sentences = [
        f"Every client has an epsilon of {account['epsilon']:.3g} at a delta of {account['delta']:g} after "
        f"{results.rounds} rounds."
    ]
    if account["epsilon"] > _WEAK:
        sentences.append("That promises next to nothing: above 10, what a client did can show plainly.")
    if account["noise_length"] > 1:
        sentences.append(
            f"With {results.clients} clients it is meaningless anyway: the noise of the mean is "
            f"{account['noise_length']:.3g} times as long as the longest change that they could agree on, so that "
            "little can be learned. Such privacy is for hundreds of clients in a round."
        )
    sentences.append("Metrics and evaluations of single clients are not covered: keep them to yourself.")
    return " ".join(sentences)
