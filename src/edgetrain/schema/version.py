"""The version of edgetrain's documents, carried by every manifest and every JSON document."""

from __future__ import annotations

SCHEMA = "edgetrain/1"
