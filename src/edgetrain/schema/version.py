"""The version of our documents, carried by every manifest and every JSON document."""

from __future__ import annotations

SCHEMA = "edgetrain/1"
