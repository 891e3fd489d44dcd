"""The continual-learning methods of the paper, one per file; none of them knows OpenFL or Fed-A-GEM."""

from fedagem.methods.agem import AGEM
from fedagem.methods.der import DER
from fedagem.methods.fedavg import FedAvg
from fedagem.methods.ideal import Ideal
from fedagem.methods.method import Method

METHODS: dict[str, type[Method]] = {"fedavg": FedAvg, "agem": AGEM, "der": DER, "ideal": Ideal}
