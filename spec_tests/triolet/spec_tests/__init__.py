"""The conformance suite that decides whether an adapter may call itself compatible."""
