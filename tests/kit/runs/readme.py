"""README.md's blocks of code, out of the file itself: what tests run cannot rot."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

README = Path(__file__).parents[3] / "README.md"
ADDRESS = "127.0.0.1:9092"


def blocks(language: str) -> list[str]:
    """The blocks of one language, in the order of the file."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def python_block(word: str, address: str = ADDRESS) -> str:
    """The one with this word in it, with an address of the test's own."""
    [block] = [block for block in blocks("python") if word in block]
    return block.replace(ADDRESS, address)


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def python_program(block: str) -> str:
    """A block that a checker of types can read: what is no whole program stands in a function that
    is given what the text around it speaks of."""
    if block.startswith("import "):
        return f"# pyright: standard\n{block}"
    return (
        "# pyright: standard\n"
        "from typing import Any\n"
        "import confluent_kafka\n"
        "import penstock\n"
        f"async def block(mq: penstock.Client, bank: Any) -> None:\n{indent(block, '    ')}"
    )
