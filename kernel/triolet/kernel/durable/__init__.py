"""Durable work: accepted, claimed, attempted, settled; the same interpreter over fenced stores."""
