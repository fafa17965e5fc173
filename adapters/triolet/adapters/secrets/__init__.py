"""Where secrets come from: environment variables, or files that only their owner can read."""

from triolet.adapters.secrets.environment import EnvironmentSecrets
from triolet.adapters.secrets.files import SecretFiles

__all__ = ["EnvironmentSecrets", "SecretFiles"]
