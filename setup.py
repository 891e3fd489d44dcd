"""What pyproject.toml cannot say: besides the packages that are found by name, `workspace/` and `plan/` are installed.

In a wheel they are `fedagem/share/workspace` and `fedagem/share/plan`; `fedagem.plans.workspace` finds them there, or
in the repository that an editable install points to.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["fedagem*", "models*", "carla_bridge*"]),
        "fedagem.share.workspace",
        "fedagem.share.workspace.src",
        "fedagem.share.plan",
        "fedagem.share.plan.studies",
    ]
)
