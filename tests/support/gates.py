"""Hosts to ask the gate about: a recorded box, and ledgers of it that ended when a test says so."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.cli import main
from checks.core.moment import utc_text
from checks.ledger.canonical import ledger_digest
from checks.ledger.store import HostFolder
from tests.support.boxes import NOW_S, UP_S, Box, h100_box
from tests.support.runs import run_here

HOST = "h100-1"
HOUR_S = 3_600.0
BOOT_ID = "6c4f7c0e-0f8b-4b0e-a34b-2f9f6f0f5f55"
OTHER_BOOT_ID = "00000000-0f8b-4b0e-a34b-2f9f6f0f5f55"
EXIT_CODES = {"pass": 0, "fail": 1, "interrupted": 2, "incomplete": 10}

Row = dict[str, Any]


def placed_box() -> Box:
    """Eight H100; disks with their place on the PCI bus, as real ones have it."""
    box = h100_box()
    for number in range(2):
        address = f"0000:0{number + 1}:00.0"
        lies = f"/sys/devices/pci0000:00/{address}/nvme/nvme{number}/nvme{number}n1"
        box.drop(f"/sys/block/nvme{number}n1/")
        box.link(f"/sys/block/nvme{number}n1", f"../devices{lies.removeprefix('/sys/devices')}")
        box.put(f"{lies}/size", "7501476528\n").put(f"{lies}/wwid", f"eui.3634463{number}\n")
        box.put(f"{lies}/device/model", "SAMSUNG MZQL23T8HCLS-00A07\n")
    return box


def template(top: Path) -> Row:
    """Make one ledger of that box; every other is a copy of it."""
    tree = placed_box().write(top / "box")
    ledger = run_here(top / "ledgers", "local", root=str(tree)).ledger
    assert ledger is not None
    return ledger


@dataclass(frozen=True)
class Said:
    """What the gate said."""

    code: int
    out: str
    err: str


class Gated:
    """A host with a box and a row of ledgers."""

    def __init__(self, top: Path, made: Row, capsys: Any) -> None:
        self.made = made
        self.top = top
        self.capsys = capsys
        self.box = placed_box()
        self.tree = top / "box"
        self.ledgers = top / "ledgers"
        self.folder = HostFolder(self.ledgers, HOST)
        self.now_s = NOW_S
        self.count = 0

    @property
    def head(self) -> Path:
        return self.folder.path / "head.json"

    def newest(self) -> Path:
        """The ledger that the head names."""
        return self.folder.path / json.loads(self.head.read_bytes())["file"]

    def ran(
        self,
        verdict: str = "pass",
        *,
        ago_s: float = 3 * HOUR_S,
        scope: str = "all",
        area: str = "",
        unconfirmed: int = 0,
        optional: bool = False,
        **run: Any,
    ) -> Gated:
        """Let a run have ended some time ago; the head follows.

        Args:
            verdict: how it came out.
            ago_s: how long ago.
            scope: what it spoke of.
            area: of the check that did not pass; without, the scope's or `machine`.
            unconfirmed: how many passes nobody confirms.
            optional: whether the profile makes those checks optional.
            run: more of the ledger's `run`.

        """
        self.count += 1
        row = copy.deepcopy(self.made)
        ended_s = self.now_s - ago_s
        del row["digest"]
        row["host"] = HOST
        row["run"] |= {
            "id": f"{self.count:016x}",
            "kind": "run",
            "scope": scope,
            "started_utc": utc_text(ended_s - 1),
            "ended_utc": utc_text(ended_s),
            "elapsed_s": 1.0,
            "end": "interrupted" if verdict == "interrupted" else "complete",
            "verdict": verdict,
            "exit_code": EXIT_CODES[verdict],
            **run,
        }
        row["time"] |= {"started_s": ended_s - 1}
        area = area or ("machine" if scope in ("all", "quick", "selection") else scope)
        passes = [finding for finding in row["findings"] if finding["verdict"] == "pass"]
        for finding in passes:
            if scope not in ("all", "quick", "selection"):
                finding["check"] = finding["check"].replace("machine.", f"{scope}.")
        if verdict in ("fail", "incomplete"):
            bad = copy.deepcopy(passes[0])
            failed = verdict == "fail"
            bad |= {
                "check": f"{area}.planted.thing",
                "verdict": "fail" if failed else "unknown",
                "reason": None if failed else "lost",
                "cause": "planted" if failed else "",
                "confirmed": False,
                "effect": "fails" if failed else "incomplete",
            }
            row["findings"].append(bad)
        for finding in passes[:unconfirmed]:
            finding |= {"confirmed": False, "basis": "assumed"}
            if optional:
                row["profile"]["content"]["checks"]["optional"][finding["check"]] = "planted"
        row["counts"]["unconfirmed"] = unconfirmed
        head = self.folder.head()
        row["previous"] = head and {"file": head.file, "digest": head.digest}
        row["digest"] = ledger_digest(row)
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self.folder.finish(self.folder.path / "journal-none.jsonl", row)
        return self

    def change_head(self, **changes: Any) -> Gated:
        """Change what the head says; None takes a key away."""
        head = json.loads(self.head.read_bytes())
        for key, value in changes.items():
            if value is None:
                del head[key]
            else:
                head[key] = value
        self.head.write_text(json.dumps(head))
        return self

    def later(self, seconds: float) -> Gated:
        """Let time pass on the box."""
        self.now_s += seconds
        self.box.recorded["now_s"] = self.now_s
        self.box.recorded["boot_s"] += seconds
        return self

    def set_clock(self, by_s: float) -> Gated:
        """Set the clock of the box, while it goes on running."""
        self.now_s += by_s
        self.box.recorded["now_s"] = self.now_s
        return self

    def boot(self, ago_s: float = HOUR_S) -> Gated:
        """Let the box have booted since."""
        self.box.put("/proc/sys/kernel/random/boot_id", f"{OTHER_BOOT_ID}\n")
        self.box.recorded["boot_s"] = ago_s
        return self

    def words(self, *words: str) -> list[str]:
        """Give the words of the command line; the box is written as it is now."""
        if not self.tree.exists():
            self.box.write(self.tree)
        named = ["--host", HOST, "--ledger-dir", str(self.ledgers), "--root", str(self.tree)]
        age = [] if "--max-age" in words else ["--max-age", "7d"]
        return ["gate", *named, *age, *words]

    def ask(self, *words: str) -> Said:
        """Ask within this process."""
        self.capsys.readouterr()
        code = main(self.words(*words))
        out, err = self.capsys.readouterr()
        return Said(code, out, err)

    def files(self) -> dict[str, tuple[int, int, int]]:
        """Give what would show that something was written, of each file."""
        found = sorted(path for path in self.ledgers.rglob("*") if not path.is_symlink())
        return {
            str(path): (status.st_mtime_ns, status.st_size, status.st_ino)
            for path in found
            if (status := path.stat())
        }


__all__ = ["BOOT_ID", "HOST", "HOUR_S", "NOW_S", "UP_S", "Gated", "Said", "placed_box", "template"]
