"""Sections as Markdown, for docs/results.md."""

from __future__ import annotations

from typing import Any

from advmetric.experiments.engine.study import Section

from .content import Bullets, Cell, Drawing, Heading, Paragraph, Table

__all__ = ["to_markdown"]


def to_markdown(section: Section) -> str:
    """Return a section under a heading of the second level; figures are left out, since the report draws them."""
    answers = [f"* {_plain(line)}" for line in section.answers]
    blocks = [_block(block) for block in section.blocks if not isinstance(block, Drawing)]
    parts = [f"## {_plain(section.title)}", "\n".join(answers), *blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(block: Any) -> str:
    if isinstance(block, Heading):
        return f"### {_plain(block.text)}"
    if isinstance(block, Paragraph):
        return _plain(block.text)
    if isinstance(block, Bullets):
        return "\n".join(f"* {_plain(item)}" for item in block.items)
    assert isinstance(block, Table)
    lines = [[_plain(name) for name in block.head], ["---"] * len(block.head)]
    lines += [[_cell(cell) for cell in row] for row in block.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell | str) -> str:
    full = cell if isinstance(cell, Cell) else Cell(cell)
    text = _plain(full.text)
    text = f"**{text}**" if full.best else text
    return text + (f" {full.mark}" if full.mark else "") + (f" ({_plain(full.below)})" if full.below else "")


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    for character in "\\|<>*_`":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
