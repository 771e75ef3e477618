"""The command: from run folders to tables, figures and pages, and its errors of one line."""

import json
import pathlib
import random
import subprocess
import sys

import chromium
import pytest
import synthetic_records as synthetic
from test_viewer import AXE

from asc_jax import report as command
from asc_jax.evaluation import metrics, records, tables
from asc_jax.types import UserError

ROOT = pathlib.Path(__file__).parents[2]
METRICS = [
  {"step": i, "reward/R": 0.6, "reward/credit": 0.2, "text/copy": 0.4, "text/words": 30.0}
  for i in (1, 2, 3)
]


def report(*arguments):
  line = [sys.executable, "-m", "asc_jax.report", *map(str, arguments)]
  return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)


def make_run(folder, method, copying, seed):
  """A workdir as training leaves it: answers before and after, and the metrics of its steps."""
  for step, share in ((0, 0.4), (3, copying)):
    rng = random.Random(seed if step else 0)
    rows = [
      row
      for corpus in ("asqa", "clapnq")
      for row in synthetic.realistic(rng, 9, step=step, copying=share, corpus=corpus)
    ]
    for row in rows:
      row["method"] = method
    records.append(folder / "records" / f"step_{step:06d}.jsonl", rows)
  lines = [json.dumps(row) for row in METRICS]
  (folder / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 4, "rew')
  return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  runs = [make_run(folder / "one", "asc", 0.1, 1), make_run(folder / "two", "grpo", 0.9, 2)]
  pairs = [
    {
      "judge": "j",
      "rubric": "r",
      "task": task,
      "corpus": "asqa",
      "id": f"q{i}",
      "a": "asc",
      "b": "base",
      "forward": "a",
      "backward": "tie",
    }
    for task in ("win", "padded")
    for i in range(3)
  ]
  (folder / "one/judgements.jsonl").write_text("".join(json.dumps(p) + "\n" for p in pairs))
  done = report(*runs, f"--out={folder / 'out'}")
  return done, folder


def test_the_terminal_shows_every_corpus_and_method(made):
  done, folder = made
  assert done.returncode == 0, done.stderr
  assert done.stdout.startswith("asqa\n") and "\nclapnq\n" in done.stdout
  lines = done.stdout.splitlines()
  assert lines[1].split() == ["base", "asc", "grpo"]
  rows = records.read(folder / "two/records/step_000003.jsonl")
  asqa = metrics.summarise([r for r in rows if r["corpus"] == "asqa"])
  copy = next(line for line in lines if line.startswith("Copy %"))
  assert copy.split()[-1] == f"{asqa.values['Copy']:.1f}"
  assert any(line.startswith("grpo: shortcut flags against base: Copy") for line in lines)


def test_every_table_and_figure_is_written(made):
  _, folder = made
  found = {p.name for p in (folder / "out").iterdir()}
  tables = ["table_1_asqa", "table_1_clapnq", "table_2", "table_19"]
  tables = [t + s for t in tables for s in ("", "_minilm", "_lexical")] + ["table_17"]
  figures = ["curves", "figure_1", "figure_2", "figure_8"]
  figures += [f"figure_{n}_{name}" for n in (3, 5) for name in ("minilm", "lexical")]
  pages = {"report.html", "viewer_one.html", "viewer_two.html", "viewer_all.html"}
  wanted = {f"{t}.{kind}" for t in tables for kind in ("md", "tex", "csv")}
  assert found == wanted | {f"{f}.{kind}" for f in figures for kind in ("png", "svg")} | pages


def test_the_page_holds_everything_and_links_only_to_its_neighbours(made):
  _, folder = made
  html = (folder / "out/report.html").read_text()
  assert html.count("<table>") == 13 and html.count("data:image/svg+xml") == 8
  assert "http://" not in html and "https://" not in html
  if chromium.find() is None or not AXE.exists():
    pytest.skip("needs Chromium and axe-core")
  with chromium.Page() as page:
    for width, scheme in ((1400, "light"), (420, "dark")):
      page.open((folder / "out/report.html").as_uri(), width=width, scheme=scheme)
      page.evaluate(AXE.read_text())
      found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
      assert found == []
      assert page.evaluate("document.documentElement.scrollWidth") <= width
      links = page.evaluate(
        "[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))"
      )
      assert links == ["viewer_one.html", "viewer_two.html", "viewer_all.html"]
      assert page.evaluate("[...document.images].every(i => i.naturalWidth > 100)")


def test_a_records_file_alone_gives_a_report_beside_it(made, tmp_path):
  rows = synthetic.realistic(random.Random(0), 4)
  records.append(tmp_path / "answers.jsonl", rows)
  done = report(tmp_path / "answers.jsonl")
  assert done.returncode == 0, done.stderr
  assert (tmp_path / "report/viewer_answers.html").exists()
  assert not (tmp_path / "report/curves.svg").exists()


def test_metrics_alone_give_the_curves(tmp_path):
  (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in METRICS))
  done = report(tmp_path)
  assert done.returncode == 0, done.stderr
  assert {p.name for p in (tmp_path / "report").iterdir()} == {
    "curves.png",
    "curves.svg",
    "report.html",
  }


def test_the_command_answers_bad_input_in_one_line(tmp_path):
  for arguments, parts in (
    ([], ["RUNS is missing"]),
    ([tmp_path, "--oat=x"], ["--oat is not a flag", "--out"]),
    ([tmp_path], [str(tmp_path), "neither records/**/*.jsonl nor metrics.jsonl"]),
  ):
    done = report(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert all(part in done.stderr for part in parts)
  assert list(tmp_path.iterdir()) == []


def test_a_corpus_of_any_name_stays_in_the_folder(tmp_path):
  command.write_tables(tmp_path, [tables.Table("table_1_../../x", "t", ["a"], [])])
  assert {p.stem for p in tmp_path.iterdir()} == {"table_1_.._.._x"}


def refused(message, *runs, judgements=None):
  with pytest.raises(UserError, match=message):
    command.main(list(map(str, runs)), None, judgements and str(judgements))


def test_bad_files_are_named(tmp_path):
  refused(r"gone\.jsonl: cannot be read", tmp_path / "gone.jsonl")
  refused("given twice", tmp_path, tmp_path)
  (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"steps": 2}\n')
  refused(r"metrics\.jsonl:2: a line is", tmp_path)
  (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward/R": null}\n')
  refused(r"metrics\.jsonl:1: a line is", tmp_path)
  (tmp_path / "none.jsonl").write_text("")
  refused(r"none\.jsonl holds no answer", tmp_path / "none.jsonl")
  rows = synthetic.realistic(random.Random(0), 2)
  records.append(tmp_path / "r.jsonl", rows)
  (tmp_path / "j.jsonl").write_text('{"judge": "x"}\n')
  refused(r"j\.jsonl:1: a is missing", tmp_path / "r.jsonl", judgements=tmp_path / "j.jsonl")
  records.append(tmp_path / "twice.jsonl", rows * 2)
  refused("the same answer is recorded twice", tmp_path / "twice.jsonl")
  other = synthetic.realistic(random.Random(0), 2, corpus="eli5", step=4)
  records.append(tmp_path / "other.jsonl", other)
  refused("corpus clapnq was not answered both", tmp_path / "r.jsonl", tmp_path / "other.jsonl")
  with pytest.raises(UserError, match=r"--out=.*r\.jsonl cannot be written \(File exists\)"):
    command.main([str(tmp_path / "r.jsonl")], str(tmp_path / "r.jsonl"), None)
  assert {p.suffix for p in tmp_path.iterdir()} == {".jsonl"}  # nothing was written
