"""CorVer's report from written records: tables against counts made by hand."""

import json

import pytest

from asc_jax import report
from asc_jax.evaluation import completions, corver_paper, records
from asc_jax.types import UserError

SAMPLING = {
  "answers": 1,
  "temperature": 0.0,
  "top_k": 0,
  "top_p": 1.0,
  "max_tokens": 64,
  "seed": 0,
}
# By question: corpus, outcome before, outcome after, counts of its two sentences, popularity.
ANSWERS = [
  ("popqa", "refused", "correct", (None, 0), 1),
  ("popqa", "refused", "refused", (0, 0), 2),
  ("popqa", "wrong", "correct", (0, 3), 30),
  ("popqa", "correct", "correct", (3, 25), 400),
  ("nq_open", "correct", "wrong", (25, 25), None),
  ("nq_open", "wrong", "wrong", (0, 7), None),
]


def row(place, step, outcome):
  corpus, _, _, counts, popularity = ANSWERS[place]
  text = "One. Two."
  return completions.Completion(
    run="r",
    method="corver",
    step=step,
    corpus=corpus,
    id=f"q{place}",
    question=f"question {place}?",
    prompt="p",
    aliases=["a"],
    popularity=popularity,
    answer_index=0,
    completion=text,
    answer=text,
    tokens=10 + step + place,
    finished=True,
    outcome=outcome,
    formatted=place % 2 == 0,
    sampling=SAMPLING,
    sentences=[
      completions.Statement(
        start=5 * i,
        end=5 * i + 4,
        reward=0.0,
        triplet=[],
        words=[],
        occurrences=count,
        approximate=False,
      )
      for i, count in enumerate(counts)
    ],
  )


def write(folder, changes=(), seconds=2.0, flip=False):
  """A workdir of a run of 4 steps; with `flip`, the fourth question ends up wrong."""
  before = [row(i, 0, answer[1]) for i, answer in enumerate(ANSWERS)]
  after = [row(i, 4, answer[2]) for i, answer in enumerate(ANSWERS)]
  if flip:
    after[3]["outcome"] = "wrong"
  for step, rows in ((0, before), (4, after)):
    records.append(folder / f"records/step_{step:06d}.jsonl", rows, completions.Completion)
  config = {
    "method": "corver",
    "model.path": "models/Tiny",
    "data.batch_size": 2,
    "rollout.group_size": 5,
    "checker.name": "nli",
    "corver.verifier": "corpus",
    "corver.levels": "0:-1,1:0,20:1",
    "corver.local_weight": 1.0,
    "corver.judge_weight": 1.0,
    "corver.unit": "sentence",
    "corver.pass_rates": None,
    "corver.rule": "first_valid",
    "corver.window": 1000,
  }
  (folder / "config.json").write_text(json.dumps(config | dict(changes)))
  step = {"corver/sentences": 3.0, "time/sentence_rewards": 0.06}
  lines = [{"step": n, "time/step": 9.0 if n == 1 else seconds, **step} for n in range(1, 5)]
  (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
  return str(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  root = tmp_path_factory.mktemp("runs")
  return [
    write(root / "full"),
    write(root / "min", {"corver.rule": "min"}, seconds=3.0, flip=True),
    write(root / "narrow", {"corver.window": 100}),
    write(root / "half", {"corver.local_weight": 0.5}),
    write(root / "none", {"corver.local_weight": 0.0}, flip=True),
    write(root / "nli", {"method": "fspo", "corver.verifier": "checker"}, seconds=8.0),
  ]


def cells(table):
  return [[cell.text for cell in row] for row in table.rows]


def test_tables_are_the_counts(runs):
  made, missing = corver_paper.make(corver_paper.load_all(runs))
  tables = {table.name: cells(table) for table in made}
  assert not missing
  # Of popqa 1 of 4 is right before, 3 after; of nq_open 1 of 2, then 0: means 37.5 and 37.5.
  base, full, least = (tables["table_1"][i] for i in (0, 1, 2))
  assert base == ["Tiny, base", "25.0", "50.0", "37.5", "25.0", "50.0", "13.0"]
  assert full == ["Tiny, full", "75.0", "0.0", "37.5", "12.5", "50.0", "17.0"]
  assert least[:4] == ["Tiny, min", "50.0", "0.0", "25.0"]
  assert tables["table_1"][-1][0] == "Tiny, fspo"
  ablated = {r[0]: r[-1] for r in tables["table_2"]}
  assert ablated["Tiny, CorVer"] == "" and ablated["Tiny, A1, no corpus"] == "-12.5"
  # 2 x 5 completions of 3 sentences take 0.06 s: 2 ms each, 3 % of a step of 2 s.
  costs = {r[0]: r[1:] for r in tables["table_3"]}
  assert costs["Tiny, full"] == ["corpus", "2.00", "0.060", "3.0", "2.00", "4.00"]
  assert costs["Tiny, fspo"] == ["nli", "8.00", "0.060", "0.8", "2.00", "1.00"]
  # Attempted: wrong 0, 3; correct 3, 25; correct 25, 25; wrong 0, 7.
  assert tables["table_4"] == [
    ["no query", "0", "–", ""],
    ["0", "2", "0.0", ""],
    ["1 to 19", "3", "33.3", "+33.3"],
    ["20 or more", "3", "100.0", "+66.7"],
  ]
  assert [r[0] for r in tables["rules"]] == ["first_valid", "min"]
  assert [r[-1] for r in tables["rules"]] == ["0.2", "0.3"]  # (9 + 3 x 2) and (9 + 3 x 3) s
  assert [(r[0], r[1]) for r in tables["sweep_weight"]] == [
    ("0.0", "25.0"),
    ("0.5", "37.5"),
    ("1.0", "37.5"),
  ]
  assert [r[0] for r in tables["sweep_window"]] == ["100", "1000"]
  moved = dict(zip(_header(made, "transitions")[1:], tables["transitions"][0][1:], strict=True))
  assert moved["refused to correct"] == moved["correct to wrong"] == "16.7"
  assert moved["correct to refused"] == "0.0"


def test_an_evaluation_holds_several_runs(tmp_path):
  """Step and method come from the records; how the runs were trained is not known there."""
  for run, method, step, outcome in (
    ("base", "base", 0, 1),
    ("a", "corver", 4, 2),
    ("b", "fspo", 4, 1),
  ):
    rows = [row(i, step, answer[outcome]) | {"run": run, "method": method}
            for i, answer in enumerate(ANSWERS)]  # fmt: skip
    records.append(tmp_path / f"records/all/{run}.jsonl", rows, completions.Completion)
  settings = {"config": {"model.path": "models/Tiny", "method": "asc"}, "instruments": None}
  (tmp_path / "evaluation.json").write_text(json.dumps(settings))
  made, _ = corver_paper.make(corver_paper.load_all([str(tmp_path)]))
  table = next(cells(table) for table in made if table.name == "table_1")
  assert [r[:4] for r in table] == [
    ["Tiny, base", "25.0", "50.0", "37.5"],
    ["Tiny, corver", "75.0", "0.0", "37.5"],
    ["Tiny, fspo", "25.0", "50.0", "37.5"],
  ]


def _header(made, name):
  return next(table.header for table in made if table.name == name)


def test_the_command_writes_tables_and_figures(runs, tmp_path, capsys):
  report.main(runs[:1], str(tmp_path / "out"), None, paper="corver")
  printed = capsys.readouterr().out
  for text in ("Table 1.", "Table 4.", "left out: rules", "left out: sweep_window", "3 figures"):
    assert text in printed
  names = {path.name for path in (tmp_path / "out").iterdir()}
  assert {"table_1.md", "table_3.tex", "transitions.csv", "figure_3.png", "figure_5.svg"} <= names
  page = (tmp_path / "out" / "report.html").read_text()
  assert page.count("<figure>") == 3 and "Figure 4. Accuracy by the popularity" in page


def test_other_runs_are_refused(runs, tmp_path):
  with pytest.raises(UserError, match="no records"):
    corver_paper.load_all([str(tmp_path)])
  (tmp_path / "records").mkdir()
  (tmp_path / "records" / "a.jsonl").write_text('{"run": "r"}\n')
  with pytest.raises(UserError, match=r"fields are those of Completion in asc_jax/evaluation"):
    corver_paper.load_all([str(tmp_path)])


def test_the_other_papers_report_names_the_flag(runs, tmp_path):
  with pytest.raises(UserError, match="a CorVer run's record; .* reads it with --paper=corver"):
    report.main(runs[:1], str(tmp_path / "out"), None)
  assert not (tmp_path / "out").exists()
