"""Summaries as text: the terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

from asc_jax.evaluation import metrics

DASH = "–"


def number(value: float | None, decimals: int = 1) -> str:
  """`value` with `decimals` decimals, – where there is none."""
  return DASH if value is None else f"{value:.{decimals}f}"


def digits(column: metrics.Column) -> int:
  """Decimals that a column is printed with."""
  return 2 if column.kind == "supported_count" else 1


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
    The table, then one line for the metrics that no instrument measured, one for
    sentences that could not be scored, and one for each flagged heading.
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
  for heading, summary in summaries.items():
    for name, count in summary.unscored.items():
      lines.append(f"{heading}: not scored by {name}: {count} of {summary.sentences} sentences")
  first = baseline or next(iter(summaries))
  for heading, summary in summaries.items():
    if heading != first and (raised := metrics.flags(summaries[first], summary)):
      lines.append(f"{heading}: shortcut flags against {first}: {', '.join(raised)}")
  return "\n".join(lines)
