"""The paper's tables made from records, with the paper's own figures beside them.

Every table comes for the paper's instruments and, where a stand-in was run, once
more for it, under its name. Paper rows are Qwen3.5-9B's and take no part in the
ranking.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from asc_jax.evaluation import bootstrap, metrics, pairwise
from asc_jax.evaluation.runs import CORPORA, Setting
from asc_jax.evaluation.tables import Cell, Table, digits, number, rank

TABLE_1 = {  # R, Copy, Words, Vac, Ref, EM on ASQA
  "base": (87.1, 38.8, 73.5, 21.5, 6.1, 45.5),
  "GRPO": (98.9, 72.8, 13.7, 18.1, 0.0, 27.6),
  "GRPO + KL": (92.3, 39.2, 60.0, 28.5, 14.7, 41.8),
  "copy penalty": (92.0, 11.8, 36.9, 67.4, 64.5, 20.2),
  "DPO": (94.6, 53.4, 55.7, 16.9, 1.7, 41.8),
  "DPO copy-matched": (90.4, 44.9, 59.7, 21.5, 6.1, 43.8),
}
TABLE_2 = {  # Err on each of CORPORA and their mean; Supp, Copy, Words, Vac, Ref; EM
  "base": (5.09, 2.31, 3.61, 6.04, 6.21, 4.65, 2.17, 28.06, 97.40, 27.88, 4.94, 45.45),
  "GRPO + KL": (3.97, 1.20, 3.19, 5.38, 5.85, 3.92, 2.03, 27.17, 83.00, 32.23, 23.32, 41.78),
  "copy penalty": (1.45, 1.20, 0.40, 1.13, 0.42, 0.92, 1.22, 6.18, 29.48, 82.31, 79.65, 20.22),
  "sentence reward": (3.74, 0.85, 3.09, 3.51, 4.25, 3.09, 2.16, 30.85, 92.08, 25.69, 11.78, 44.15),
}
TABLE_17 = ((44.8, 3.8, 99.3), (47.2, 15.5, 99.3), (45.9, 11.5, 99.7))  # one rubric a row
TABLE_19 = {  # questions; Err base, ASC; Supp base, ASC; whether Err, Supp are significant
  "asqa": (663, 3.9, 3.3, 1.54, 2.22, "", "*"),
  "ragtruth": (91, 1.2, 1.3, 3.16, 3.96, "", "*"),
  "clapnq": (235, 3.1, 2.4, 1.83, 2.57, "", "*"),
  "eli5": (248, 3.7, 2.5, 3.08, 3.53, "*", "*"),
}
HUMAN_STUDY = (12.2, 1.9)  # RAGTruth's labels: erroneous authored, copied sentences

GREY = "Grey (italics where there is no grey): a setting that took a shortcut is not ranked."
STAR = (
  "* the 95 % interval of the change from base, by paired bootstrap over questions, leaves out 0."
)


def measured_by(instrument: str | None) -> dict[str, metrics.Column]:
  """R, Err, Supp, Vac and the string columns: the paper's, or one stand-in's."""
  table = {column.name: column for column in metrics.PAPER}
  if instrument is None:
    return table
  own = {
    name: metrics.Column(f"{name} [{instrument}]", kind, instrument)
    for name, kind in metrics.OWN.items()
  }
  return {**table, **own}


def _suffix(instrument: str | None) -> tuple[str, str]:
  """File suffix and title suffix of a table under one instrument."""
  if instrument is None:
    return "", ""
  return f"_{instrument}", f", measured by {instrument}, a stand-in for the paper's instruments"


def _how(settings: Sequence[Setting], wanted: Sequence[metrics.Column]) -> list[str]:
  """Notes that say how answers were drawn, and by what each column was measured."""
  hashes: dict[str, dict[str, None]] = {}
  drawn: dict[str, None] = {}
  for record in (record for setting in settings for record in setting.all()):
    for name, weights in record["instruments"].items():
      hashes.setdefault(name, {})[weights] = None
    how = record["sampling"]
    heat = f"temperature {how['temperature']:g}" if how["temperature"] else "greedy"
    drawn[f"{how['answers']} a question, {heat}, at most {how['max_tokens']} tokens"] = None
  columns: dict[str, list[str]] = {}
  for column in wanted:
    columns.setdefault(column.instrument, []).append(column.name.split(" [")[0])
  by = {name: f"{name} {' and '.join(found)}" for name, found in hashes.items()} | {
    "": "string rules"
  }
  parts = [f"{', '.join(c)}: {by.get(name, name + ' (not run)')}" for name, c in columns.items()]
  return [f"Answers: {'; '.join(drawn)}.", f"Measured by (weights hash): {'; '.join(parts)}."]


def _summaries(setting: Setting, table) -> dict[str, metrics.Summary]:
  return {corpus: metrics.summarise(rows, table) for corpus, rows in setting.records.items()}


def table_1(
  base: Setting, settings: Sequence[Setting], corpus: str, instrument: str | None = None
) -> Table:
  """What each way of training did to one corpus; † marks the shortcuts."""
  known = measured_by(instrument)
  wanted = [known[name] for name in ("R", "Copy", "Words", "Vac", "Ref", "EM")]
  before = metrics.summarise(base.records[corpus], wanted)
  rows = []
  for setting in (base, *(s for s in settings if corpus in s.records)):
    summary = metrics.summarise(setting.records[corpus], wanted)
    flagged = metrics.flags(before, summary) if setting is not base else ()
    cells = [Cell(setting.label)]
    for column in wanted:
      text = number(summary.values[column.name])
      cells.append(Cell(text + "†") if column.name in flagged else Cell(text))
    rows.append(cells)
  if instrument is None and corpus == "asqa":
    rows += [[Cell(f"{n} (paper)"), *(Cell(number(v)) for v in row)] for n, row in TABLE_1.items()]
  suffix, clause = _suffix(instrument)
  return Table(
    f"table_1_{corpus}{suffix}",
    f"Table 1. Training to raise R, {corpus}, {before.questions} questions{clause}",
    ["method", *(column.name + (" %" if column.percent else "") for column in wanted)],
    rows,
    [
      "† shortcut: Copy, Vac or Ref more than 3 points above base, or Words under 85 % of base's.",
      *_how([base, *settings], wanted),
    ],
  )


def table_2(base: Setting, settings: Sequence[Setting], instrument: str | None = None) -> Table:
  """Err on every corpus, means of the other metrics, EM; ranked and starred."""
  known = measured_by(instrument)
  others = [known[name] for name in ("Supp", "Copy", "Words", "Vac", "Ref", "EM")]
  wanted = [known["Err"], *others]
  corpora = list(base.records)
  before = _summaries(base, wanted)
  rows, errors, supports = [], [], []
  for setting in (base, *settings):
    after = _summaries(setting, wanted)
    changes = {} if setting is base else bootstrap.compare(base.all(), setting.all(), wanted)
    mean = metrics.macro_mean([after[corpus] for corpus in corpora])
    start = metrics.macro_mean([before[corpus] for corpus in corpora])
    whole = changes.get(bootstrap.MEAN) or changes.get(corpora[0], {})
    places = [(after[c], before[c], changes.get(c, {})) for c in corpora]
    places += [(mean, start, whole)] if len(corpora) > 1 else []
    cells = [Cell(setting.label)]
    for summary, reference, change in places:
      cells.append(_error_cell(summary, reference, change, wanted[0]))
    for column in others:
      star = _star(whole, column) if column.kind == "supported_count" else ""
      cells.append(Cell(number(mean.values[column.name], 2) + star))
    rows.append(cells)
    errors.append([summary.values[wanted[0].name] for summary, _, _ in places])
    supports.append(mean.values[others[0].name])
  for place in range(len(errors[0])):
    rank(rows, [row[place] for row in errors], 1 + place, lowest=True)
  rank(rows, supports, 1 + len(errors[0]), lowest=False)
  if instrument is None:
    rows += _paper_rows(corpora, len(corpora) > 1)
  suffix, clause = _suffix(instrument)
  err = wanted[0].name
  means = [f"{err} mean"] if len(corpora) > 1 else []
  return Table(
    f"table_2{suffix}",
    f"Table 2. Errors of authored sentences on held-out questions{clause}",
    ["method", *(f"{err} {c}" for c in corpora), *means, *(c.name for c in others)],
    rows,
    [
      "Bold best, underlined second best (Err lowest, Supp highest); Err in %.",
      GREY,
      STAR,
      "Questions: " + ", ".join(f"{c} {before[c].questions}" for c in corpora) + ".",
      *_how([base, *settings], wanted),
      *(["Paper: Qwen3.5-9B, means over its five corpora."] if instrument is None else []),
    ],
  )


def _star(changes: Mapping[str, bootstrap.Change], column: metrics.Column) -> str:
  change = changes.get(column.name)
  return "*" if change is not None and change.significant else ""


def _error_cell(summary, reference, change, column) -> Cell:
  value = summary.values[column.name]
  grey = value is not None and bool(metrics.flags(reference, summary))
  return Cell(number(value, 2) + _star(change, column), "grey" if grey else "")


def _paper_rows(corpora: Sequence[str], mean: bool) -> list[list[Cell]]:
  rows = []
  for name, figures in TABLE_2.items():
    by_corpus = dict(zip(CORPORA, figures, strict=False))
    shown = [by_corpus.get(corpus) for corpus in corpora]
    shown += [figures[5]] if mean else []
    rows.append([Cell(f"{name} (paper)"), *(Cell(number(v, 2)) for v in [*shown, *figures[6:]])])
  return rows


def table_17(judgements: Sequence[pairwise.Judgement]) -> Table:
  """The three probes of each judge and rubric, and the win rates."""
  groups: dict[tuple[str, str], dict[str, list[pairwise.Judgement]]] = {}
  for one in judgements:
    task = one["task"] if one["task"] in pairwise.PROBES else f"{one['a']} against {one['b']}"
    groups.setdefault((one["judge"], one["rubric"]), {}).setdefault(task, []).append(one)
  contests = dict.fromkeys(t for g in groups.values() for t in g if t not in pairwise.PROBES)
  tasks = [*pairwise.PROBES, *contests]
  rows = []
  for (judge, rubric), found in groups.items():
    cells = [Cell(f"{judge}, {rubric}")]
    for task in tasks:
      cells.append(Cell(_rate(pairwise.win_rate(found[task]) if task in found else None)))
    rows.append(cells)
  blank = [Cell(number(None))] * len(contests)
  for place, row in enumerate(TABLE_17, 1):
    rows.append([Cell(f"paper, rubric {place}"), *(Cell(number(v)) for v in row), *blank])
  headings = [pairwise.PROBES.get(task, f"{task}: wins") + " %" for task in tasks]
  return Table(
    "table_17",
    "Table 17. Probes of the rubrics, and win rates in both orders",
    ["judge, rubric", *headings],
    rows,
    ["Ties and disagreements between the two orders are half a win. In brackets: 95 % intervals."],
  )


def _rate(rate: pairwise.Rate | None) -> str:
  if rate is None or rate.low is None:
    return number(rate and rate.rate)
  return f"{number(rate.rate)} [{number(rate.low)}, {number(rate.high)}]"


def table_19(base: Setting, settings: Sequence[Setting], instrument: str | None = None) -> Table:
  """Err and Supp on the questions whose passages contain the answer."""
  known = measured_by(instrument)
  wanted = [known["Err"], known["Supp"]]
  ours = _answerable(base)
  rows = []
  for corpus in ours.records:
    for setting in map(_answerable, settings):
      if corpus not in setting.records:
        continue
      rows_before, rows_after = ours.records[corpus], setting.records[corpus]
      change = bootstrap.compare(rows_before, rows_after, wanted)[corpus]
      questions = len({record["id"] for record in rows_before})
      cells = [Cell(f"{corpus}, {setting.label}"), Cell(str(questions))]
      for column in wanted:
        before, after = change[column.name].base, change[column.name].method
        cells += [Cell(number(before, digits(column)))]
        cells += [Cell(number(after, digits(column)) + _star(change, column))]
      rows.append(cells)
  if instrument is None:
    for corpus, (count, *figures, err_star, supp_star) in TABLE_19.items():
      texts = [f"{figures[0]:.1f}", f"{figures[1]:.1f}{err_star}"]
      texts += [f"{figures[2]:.2f}", f"{figures[3]:.2f}{supp_star}"]
      rows.append([Cell(f"{corpus}, ASC (paper)"), Cell(str(count)), *map(Cell, texts)])
  suffix, clause = _suffix(instrument)
  headings = [f"{column.name} {side}" for column in wanted for side in ("base", "method")]
  return Table(
    f"table_19{suffix}",
    f"Table 19. Questions whose passages contain the answer{clause}",
    ["corpus, method", "questions", *headings],
    rows,
    [
      STAR,
      "No interval, hence no star, below 50 questions.",
      *_how([base, *settings], wanted),
    ],
  )


def _answerable(setting: Setting) -> Setting:
  kept = {
    corpus: [record for record in rows if record["answerable"]]
    for corpus, rows in setting.records.items()
  }
  return dataclasses.replace(setting, records={c: rows for c, rows in kept.items() if rows})
