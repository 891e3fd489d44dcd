"""The continual-learning methods of the paper, one per file; none of them knows OpenFL or Fed-A-GEM."""

from fedagem.learning.methods.agem import AGEM
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.ideal import Ideal
from fedagem.learning.methods.method import Method

METHODS: dict[str, type[Method]] = {"fedavg": FedAvg, "agem": AGEM, "der": DER, "ideal": Ideal}
