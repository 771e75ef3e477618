"""The paper's tables: what is ranked, starred and greyed, and the formats they are written in."""

import csv
import io
import random

import pytest
import synthetic_records as synthetic
import test_metrics

from asc_jax.evaluation import paper, runs, tables
from asc_jax.evaluation.tables import Cell

CORPORA = ("asqa", "clapnq")


def setting(label, copying, seed, questions=60):
  rng = random.Random(seed)
  return runs.Setting(
    label,
    {c: synthetic.realistic(rng, questions, copying=copying, corpus=c) for c in CORPORA},
  )


BASE = setting("base", 0.4, 1)
COPIER = setting("grpo", 0.8, 2)
AUTHOR = setting("asc", 0.4, 3)
for rows in AUTHOR.records.values():  # every authored sentence supported, no vacuous one
  for row in rows:
    for s in row["sentences"]:
      s["scores"]["minilm"] = {"supported": 0.9, "vacuous": 0.1, "threshold": 0.5}


def column(table, name):
  place = list(table.header).index(name)
  return {row[0].text: row[place] for row in table.rows}


def test_table_1_marks_the_shortcuts_and_ends_with_the_papers_rows():
  table = paper.table_1(BASE, [COPIER, AUTHOR], "asqa")
  copy = column(table, "Copy %")
  assert copy["grpo"].text.endswith("†") and not copy["base"].text.endswith("†")
  assert copy["GRPO (paper)"].text == "72.8"
  assert column(table, "R %")["base"].text == tables.DASH  # its instrument was not run
  own = paper.table_1(BASE, [COPIER], "asqa", "minilm")
  assert column(own, "R [minilm] %")["base"].text != tables.DASH
  assert not any("(paper)" in row[0].text for row in own.rows)
  assert "stand-in" in own.title


def test_tables_say_how_answers_were_drawn_and_by_which_weights():
  for table in (
    paper.table_1(BASE, [COPIER], "asqa", "minilm"),
    paper.table_2(BASE, [COPIER], "minilm"),
    paper.table_19(BASE, [COPIER], "minilm"),
  ):
    assert "Answers: 1 a question, greedy, at most 64 tokens." in table.notes
    assert "minilm 5f0c29aa61d1" in table.notes[-1]
  theirs = paper.table_1(BASE, [COPIER], "asqa").notes[-1]
  assert "R, Vac: bespoke (not run)" in theirs and "Copy, Words, Ref, EM: string rules" in theirs


def test_table_2_ranks_only_what_took_no_shortcut():
  table = paper.table_2(BASE, [COPIER, AUTHOR], "minilm")
  errors = column(table, "Err [minilm] asqa")
  assert errors["grpo"].style == "grey"
  assert errors["asc"] == Cell("0.00*", "bold")
  assert errors["base"].style == "underline"
  supports = column(table, "Supp [minilm]")
  assert supports["asc"].style == "bold" and supports["asc"].text.endswith("*")
  mean = float(column(table, "Err [minilm] mean")["base"].text)
  halves = [float(column(table, f"Err [minilm] {c}")["base"].text) for c in CORPORA]
  assert mean == pytest.approx(sum(halves) / 2, abs=0.011)


def test_table_2_holds_the_papers_figures_of_the_corpora_at_hand():
  table = paper.table_2(BASE, [AUTHOR])
  row = next(r for r in table.rows if r[0].text == "base (paper)")
  assert [c.text for c in row[1:]] == [
    "5.09",
    "3.61",
    "4.65",
    "2.17",
    "28.06",
    "97.40",
    "27.88",
    "4.94",
    "45.45",
  ]


def test_table_19_counts_the_answerable_and_gives_no_star_below_fifty():
  table = paper.table_19(BASE, [AUTHOR], "minilm")
  row = table.rows[0]
  assert [row[0].text, row[1].text] == ["asqa, asc", "40"]  # two of three are answerable
  assert not any("*" in cell.text for cell in row)
  big = paper.table_19(setting("base", 0.4, 1, 90), [setting("asc", 0.0, 2, 90)], "minilm")
  assert big.rows[0][1].text == "60" and big.rows[0][-1].text.endswith("*")
  known = paper.table_19(BASE, [AUTHOR])
  assert [c.text for c in known.rows[-1]] == [
    "eli5, ASC (paper)",
    "248",
    "3.7",
    "2.5*",
    "3.08",
    "3.53*",
  ]


def judged(task, verdict, count):
  return [
    dict(judge="j", rubric="r", task=task, corpus="asqa", id=f"q{i}", a="asc", b="base")
    | dict(forward=verdict, backward=verdict)
    for i in range(count)
  ]


def test_table_17_shows_probes_and_contests():
  table = paper.table_17(judged("padded", "b", 3) + judged("win", "a", 60) + judged("win", "b", 60))
  row = dict(zip(table.header, table.rows[0], strict=True))
  assert row["padded answer preferred (at most 50) %"].text == "0.0"
  assert row["copied form preferred (ideal 50) %"].text == tables.DASH
  assert row["asc against base: wins %"].text == "50.0 [50.0, 50.0]"
  assert [c.text for c in table.rows[2]][:4] == ["paper, rubric 2", "47.2", "15.5", "99.3"]


def test_ranking_shares_places_and_skips_grey():
  values = [3.0, 1.0, 1.004, 0.5, None, 2.0]
  rows = [[Cell("x"), Cell(tables.number(v, 1))] for v in values]
  rows[3][1] = rows[3][1]._replace(style="grey")
  tables.rank(rows, values, 1, lowest=True)
  assert [row[1].style for row in rows] == ["", "bold", "bold", "grey", "", "underline"]
  tables.rank(alone := [[Cell("x"), Cell("1.0")]], [1.0], 1, lowest=True)
  assert alone[0][1].style == ""


TABLE = tables.Table(
  "t",
  "Of 5 % & more",
  ["method", "Err_1 %"],
  [
    [Cell("a|b"), Cell("1.00*", "bold")],
    [Cell("c"), Cell("–", "grey")],
    [Cell("d"), Cell("2†", "underline")],
  ],
  ["A note."],
)


def test_markdown():
  assert tables.markdown(TABLE) == (
    "**Of 5 % & more**\n\n"
    "| method | Err_1 % |\n"
    "|---|---:|\n"
    "| a\\|b | **1.00\\*** |\n"
    "| c | *–* |\n"
    "| d | <u>2†</u> |\n"
    "\nA note.\n"
  )


def test_latex():
  text = tables.latex(TABLE)
  assert r"\caption{Of 5 \% \& more. A note.}" in text
  assert r"method & Err\_1 \% \\" in text
  assert r"a|b & \textbf{1.00*} \\" in text
  assert r"c & \textcolor{gray}{--} \\" in text
  assert r"d & \underline{2\dag{}} \\" in text


def test_csv_leaves_what_was_not_measured_empty():
  rows = list(csv.reader(io.StringIO(tables.comma_separated(TABLE))))
  assert rows == [["method", "Err_1 %"], ["a|b", "1.00*"], ["c", ""], ["d", "2†"]]


def test_wide_characters_keep_the_terminal_table_straight():
  text = tables.aligned(["", "橋"], [["語", "1.0"], ["ab", "10.0"]])
  assert text.splitlines()[2:] == ["語   1.0", "ab  10.0"]


def test_the_papers_table_1_was_copied_without_a_slip():
  assert paper.TABLE_1 == test_metrics.TABLE_1
