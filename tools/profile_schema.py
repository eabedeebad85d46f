"""Writes the JSON Schema of profiles from their classes. `--check` only says whether it is current.

python tools/profile_schema.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "expected" / "schema" / "profile-1.json"


def schema_text() -> str:
    """Give what the file must hold."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from checks.core.profile import SCHEMA_ID, Profile  # noqa: PLC0415 - needs the line above
    from checks.core.reader import json_schema  # noqa: PLC0415

    made = json_schema(Profile, identifier=SCHEMA_ID, title="preflight profile, version 1")
    return json.dumps(made, indent=1) + "\n"


def main(words: list[str]) -> int:
    """Write the file, or compare with it."""
    wanted = schema_text()
    if words == ["--check"]:
        current = SCHEMA.read_text("utf-8") == wanted
        if not current:
            print(f"{SCHEMA}: not what the classes say; run: python tools/profile_schema.py")
        return 0 if current else 1
    if words:
        print(__doc__)
        return 2
    SCHEMA.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
