"""The continual-learning methods of the paper, one per file; none of them knows OpenFL."""

import importlib
import importlib.util

from fedagem.errors import PlanError
from fedagem.learning.methods.agem import AGEM
from fedagem.learning.methods.cfed import CFeD
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.derpp import DERpp
from fedagem.learning.methods.er import ER
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.fedcurv import FedCurv
from fedagem.learning.methods.fedprox import FedProx
from fedagem.learning.methods.fot import FOT
from fedagem.learning.methods.glfc import GLFC
from fedagem.learning.methods.gpm import GPM
from fedagem.learning.methods.icarl import ICaRL
from fedagem.learning.methods.ideal import Ideal
from fedagem.learning.methods.l2p import L2P
from fedagem.learning.methods.method import Method
from fedagem.settings import suggestion

METHODS: dict[str, type[Method]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedcurv": FedCurv,
    "agem": AGEM,
    "er": ER,
    "der": DER,
    "derpp": DERpp,
    "gpm": GPM,
    "fot": FOT,
    "cfed": CFeD,
    "icarl": ICaRL,
    "glfc": GLFC,
    "l2p": L2P,
    "ideal": Ideal,
}
_PATH = "task_runner.settings.method"


def check_method_name(name: str) -> None:
    """Refuse a method that is not there; of a class by its dotted path only the package is looked for, not imported."""
    if name in METHODS:
        return
    package, _, rest = name.partition(".")
    if not rest:
        raise PlanError(f"{_PATH} is {name!r}{suggestion(name, METHODS)}")
    if importlib.util.find_spec(package) is None:
        raise PlanError(f"{_PATH} is {name!r}, but there is no package {package!r} here.")


def find_method(name: str) -> type[Method]:
    """A method by its name, or one's own by the dotted path of its class, which is imported."""
    check_method_name(name)
    if name in METHODS:
        return METHODS[name]
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as problem:
        raise PlanError(f"{_PATH} is {name!r}, which cannot be imported: {problem}.") from problem
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise PlanError(f"{_PATH} is {name!r}, which is not a subclass of fedagem.learning.methods.method.Method.")
    return found
