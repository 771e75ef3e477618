"""Tables as text: the terminal's, and one model written as Markdown, LaTeX, CSV and HTML."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from asc_jax.evaluation import metrics

DASH = "–"


def number(value: float | None, decimals: int = 1) -> str:
  """`value` with `decimals` decimals, – where there is none."""
  return DASH if value is None else f"{value:.{decimals}f}"


def digits(column: metrics.Column) -> int:
  """Decimals that a column is printed with."""
  return 2 if column.kind in ("supported_count", "unsupported") else 1


class Cell(NamedTuple):
  """A cell and how it looks: "bold" best, "underline" second best, "grey" not ranked."""

  text: str
  style: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
  """A table to be written in several formats.

  Attributes:
    name: stem of its files.
    title: a caption of one line.
    header: first row.
    rows: the first cell of each names the row.
    notes: lines below it, in plain words.
  """

  name: str
  title: str
  header: Sequence[str]
  rows: Sequence[Sequence[Cell]]
  notes: Sequence[str] = ()


def rank(
  rows: Sequence[list[Cell]], numbers: Sequence[float | None], column: int, *, lowest: bool
) -> None:
  """Styles the best of `numbers` bold and the second underlined, in `column` of `rows`.

  Equal numbers, as printed, share their place; grey cells and None take none.
  """
  taking = [
    (float(row[column].text.strip("*†")), row)
    for row, value in zip(rows, numbers, strict=True)
    if value is not None and row[column].style != "grey"
  ]
  places = sorted({value for value, _ in taking}, reverse=not lowest)
  for value, row in taking:
    if value in places[:2] and len(places) > 1:
      row[column] = row[column]._replace(style=("bold", "underline")[places.index(value)])


_MARKDOWN = {"bold": "**{}**", "underline": "<u>{}</u>", "grey": "*{}*", "": "{}"}


def markdown(table: Table) -> str:
  """GitHub's Markdown, which has no grey: cells that are not ranked are in italics."""

  def line(cells):
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"

  body = [[_MARKDOWN[c.style].format(c.text.replace("*", "\\*")) for c in r] for r in table.rows]
  rule = "|---|" + "---:|" * (len(table.header) - 1)
  notes = [f"\n{note}" for note in table.notes]
  return "\n".join([f"**{table.title}**\n", line(table.header), rule, *map(line, body), *notes, ""])


_LATEX = {"bold": r"\textbf{%s}", "underline": r"\underline{%s}", "grey": r"\textcolor{gray}{%s}"}
_LATEX_SPECIAL = {
  "\\": r"\textbackslash{}",
  "~": r"\textasciitilde{}",
  "^": r"\textasciicircum{}",
  "<": r"\textless{}",
  ">": r"\textgreater{}",
  "–": "--",
  "†": r"\dag{}",
  **{mark: "\\" + mark for mark in "&%$#_{}"},
}


def _latex_text(text: str) -> str:
  return re.sub(r"[\\~^<>–†&%$#_{}]", lambda match: _LATEX_SPECIAL[match[0]], text)


def latex(table: Table) -> str:
  """A booktabs table; needs the packages booktabs and xcolor."""

  def cell(one: Cell) -> str:
    return _LATEX.get(one.style, "%s") % _latex_text(one.text)

  lines = [" & ".join(map(cell, row)) + r" \\" for row in table.rows]
  return "\n".join(
    [
      r"\begin{table}",
      rf"\caption{{{_latex_text(' '.join([table.title + '.', *table.notes]))}}}",
      rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
      r"\toprule",
      " & ".join(map(_latex_text, table.header)) + r" \\",
      r"\midrule",
      *lines,
      r"\bottomrule",
      r"\end{tabular}",
      r"\end{table}",
      "",
    ]
  )


def comma_separated(table: Table) -> str:
  """CSV with the cells as printed; – is an empty field."""
  out = io.StringIO()
  writer = csv.writer(out, lineterminator="\n")
  writer.writerow(table.header)
  for row in table.rows:
    writer.writerow("" if cell.text == DASH else cell.text for cell in row)
  return out.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {
  "md": markdown,
  "tex": latex,
  "csv": comma_separated,
}


def _width(text: str) -> int:
  """Terminal cells that `text` takes: wide East Asian characters take two."""
  return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """A plain-text table: first column to the left, the others to the right."""
  lines = [header, *rows]
  widths = [max(_width(line[i]) for line in lines) for i in range(len(header))]

  def fill(line):
    cells = [
      (text + " " * (width - _width(text))) if i == 0 else " " * (width - _width(text)) + text
      for i, (text, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()

  rule = "  ".join("─" * width for width in widths)
  return "\n".join([fill(header), rule, *map(fill, rows)])


def terminal(summaries: Mapping[str, metrics.Summary], baseline: str | None = None) -> str:
  """The table that a run prints last: one row a metric, one column a set of answers.

  Args:
    summaries: by heading, e.g. {"base": ..., "trained": ...}.
    baseline: the heading that shortcut flags compare with; None: the first.

  Returns:
    The table, then one line for the metrics that no instrument measured, one for the
    instruments that did, and one for each heading with sentences that could not be
    scored, and with shortcuts.
  """
  table = list(dict.fromkeys(column for s in summaries.values() for column in s.columns))
  measured, absent = [], []
  for column in table:
    found = [s.values.get(column.name) for s in summaries.values()]
    if any(value is not None for value in found):
      unit = " %" if column.percent else ""
      measured.append([column.name + unit, *(number(v, digits(column)) for v in found)])
    else:
      absent.append(column.name)
  counts = [
    ["questions", *(str(s.questions) for s in summaries.values())],
    ["answers", *(str(s.answers) for s in summaries.values())],
    ["sentences", *(str(s.sentences) for s in summaries.values())],
  ]
  lines = [aligned(["", *summaries], measured + counts)]
  if absent:
    lines.append(f"{DASH} (instrument not run, or nothing to divide by): {', '.join(absent)}")
  hashes = dict.fromkeys(f"{n} {h}" for s in summaries.values() for n, h in s.instruments.items())
  if hashes:
    lines.append(f"instruments and their weights: {', '.join(hashes)}")
  for heading, summary in summaries.items():
    for name, count in summary.unscored.items():
      lines.append(f"{heading}: not scored by {name}: {count} of {summary.sentences} sentences")
  first = baseline or next(iter(summaries))
  for heading, summary in summaries.items():
    if heading != first and (raised := metrics.flags(summaries[first], summary)):
      lines.append(f"{heading}: shortcut flags against {first}: {', '.join(raised)}")
  return "\n".join(lines)
