"""Finding a maker by its written name: ``PACKAGE.MODULE:OPEN``.

Decides what such a name is and what is said when it leads nowhere. Importing runs the module's code, so this is
done in the process that can be killed. It calls nothing that it finds.
"""

import importlib
from typing import cast

import attrs

from triolet.ports.errors import Misuse, bounded
from triolet.spec_tests.subject import Maker


@attrs.define(kw_only=True)
class BadTarget(Misuse):
    """A target that is misspelt, cannot be imported, or names nothing that could be called."""

    target: str
    problem: str

    @property
    def message(self) -> str:
        """Which target and what is wrong with it."""
        return f"target {bounded(self.target)!r}: {self.problem}"


def check_spelling(target: str) -> tuple[str, str]:
    """The module and the name in it. Raises `BadTarget` for what is not spelt as a target, without importing it."""
    module, colon, name = target.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise BadTarget(target=target, problem="it is not spelt PACKAGE.MODULE:OPEN")
    return module, name


def load_maker(target: str) -> Maker:
    """The maker that `target` names. Raises `BadTarget`, with what the module raised as its cause."""
    module, name = check_spelling(target)
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = f"there is no module {error.name!r}" if error.name else "its module cannot be found"
        raise BadTarget(target=target, problem=missing) from error
    except Exception as error:
        # Whatever a module raises while it is imported is a fault of the target.
        problem = f"importing it raised {type(error).__name__}: {bounded(str(error))}"
        raise BadTarget(target=target, problem=problem) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise BadTarget(target=target, problem=f"module {module!r} has no {name!r}")
    if not callable(found):
        raise BadTarget(target=target, problem=f"{name!r} is a {type(found).__name__} and cannot be called")
    return cast("Maker", found)
