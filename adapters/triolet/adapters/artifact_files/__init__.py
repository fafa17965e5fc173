"""Artifacts as plain files in a directory of the host's."""

from triolet.adapters.artifact_files.store import FileArtifacts, open_artifact_files

__all__ = ["FileArtifacts", "open_artifact_files"]
