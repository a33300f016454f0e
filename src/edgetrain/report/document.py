"""Prints one JSON document on stdout; what was not measured is null, never NaN."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from edgetrain.documents import result_document

# Control characters above those that JSON escapes, and marks that change the direction of text: terminals obey both.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def _escape(mark: str) -> str:
    return f"\\u{ord(mark):04x}"


def emit(result: Any) -> None:
    """Write a typed result as one JSON document to stdout, its schema version first, and nothing else."""
    document = result_document(result)
    text = _UNPRINTABLE.sub(lambda found: _escape(found[0]), json.dumps(document, indent=2, ensure_ascii=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a stdout that is not UTF-8, or a damaged name
        text = json.dumps(document, indent=2)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
