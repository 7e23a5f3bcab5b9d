"""What the pages of the site say: their blocks, their words, and the commands among them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}[^\n]*\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def prose(page: str) -> str:
    """Without its blocks."""
    return re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """Every line of `policylag`, of sessions and of blocks that are not run, without what follows a bar."""
    lines = [*blocks(page, "shell")]
    lines += [
        line[2:] for block in blocks(page, "console") for line in block.splitlines() if line[:2] == "$ "
    ]
    found = [line for text in lines for line in text.splitlines() if line.startswith("policylag ")]
    return [re.split(r" [|>;#] | 2>&1|; echo", line)[0] for line in found]
