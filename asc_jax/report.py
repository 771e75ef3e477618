"""Tables, figures and pages from what runs left behind, without any model.

  python -m asc_jax.report RUN... [--paper=asc|corver] [--out=DIR]

A RUN is a workdir of asc_jax.main or asc_jax.evaluate (its records/**/*.jsonl and metrics.jsonl
are read) or one records file. The answers at step 0 are the base model's; each run's last step
is a method. Prints the table of every corpus and writes into --out (the first RUN's report/):

  curves, figure_1, _2, _3, _5, _8     .png and .svg
  table_1, table_2, table_17, table_19 .md, .tex and .csv
  report.html   all of them on one page
  viewer_*.html the sentences of each run, step by step; viewer_all.html side by side

With --paper=corver the RUNs are workdirs of CorVer's runs, and the report holds

  table_1 to table_4, rules, sweep_weight, sweep_window, transitions
  figure_3, figure_4, figure_5
"""

from __future__ import annotations

import base64
import pathlib
import re
from collections.abc import Mapping, Sequence

from asc_jax import cli
from asc_jax.config import Field
from asc_jax.data import files
from asc_jax.evaluation import (
  corver_figures,
  corver_paper,
  figures,
  metrics,
  pairwise,
  paper,
  paper_figures,
  tables,
  viewer,
)
from asc_jax.evaluation import runs as runs_lib


def main(runs: Sequence[str], out: str | None, judgements: str | None, paper: str = "asc") -> None:
  if paper == "corver":
    corver(runs, out)
  else:
    asc(runs, out, judgements)


def asc(runs: Sequence[str], out: str | None, judgements: str | None) -> None:
  # Everything that can be wrong with the input is found before the first file is written.
  loaded = runs_lib.load_all(runs)
  judged = pathlib.Path(judgements or pathlib.Path(runs[0]) / "judgements.jsonl")
  pairs = runs_lib.read_lines(judged, pairwise.problem) if judgements or judged.exists() else []
  base, settings = runs_lib.split(loaded)
  made = make_tables(base, settings, pairs) if base else []
  folder = folder_of(runs, out)
  written = write_curves(folder, loaded)
  if base:
    for corpus in base.records:
      print(f"{corpus}\n{terminal(corpus, base, settings)}\n")
    written += write_figures(folder, base, settings, pairs, loaded)
  write_tables(folder, made)
  pages = write_viewers(folder, loaded)
  page = folder / "report.html"
  page.write_text(render(made, written, pages, runs_lib.names(runs)), encoding="utf-8")
  print(f"{page}: {len(made)} tables, {len(written)} figures, {len(pages)} viewer pages")


def corver(runs: Sequence[str], out: str | None) -> None:
  """The report on CorVer's runs."""
  found = corver_paper.load_all(runs)
  made, missing = corver_paper.make(found)
  folder = folder_of(runs, out)
  written = [
    figures.save(figure, folder / name)[1] for name, figure in corver_figures.make(found).items()
  ]
  for table in made:
    cells = [[cell.text for cell in row] for row in table.rows]
    print(f"{table.title}\n{tables.aligned(table.header, cells)}\n")
  for reason in missing:
    print(f"left out: {reason}")
  write_tables(folder, made)
  page = folder / "report.html"
  names = runs_lib.names(runs)
  page.write_text(render(made, written, {}, names, corver_figures.CAPTIONS), encoding="utf-8")
  print(f"{page}: {len(made)} tables, {len(written)} figures")


def folder_of(runs: Sequence[str], out: str | None) -> pathlib.Path:
  """Where the report goes, made; a UserError where nothing can be written there."""
  first = pathlib.Path(runs[0])
  folder = pathlib.Path(out) if out else (first if first.is_dir() else first.parent) / "report"
  return files.make_folder(folder, "--out")


def write_tables(folder: pathlib.Path, made: Sequence[tables.Table]) -> None:
  for table in made:
    stem = re.sub(r"[^A-Za-z0-9.,-]+", "_", table.name)  # a corpus may be called anything
    for kind, write in tables.FORMATS.items():
      (folder / f"{stem}.{kind}").write_text(write(table), encoding="utf-8")


def terminal(corpus: str, base: runs_lib.Setting, settings: Sequence[runs_lib.Setting]) -> str:
  everyone = [base, *settings]
  return tables.terminal({s.label: metrics.summarise(s.records[corpus]) for s in everyone})


def stand_ins(base: runs_lib.Setting) -> list[str]:
  """Instruments of the records that are none of the paper's."""
  known = {column.instrument for column in metrics.PAPER}
  found = dict.fromkeys(name for row in base.all() for name in row["instruments"])
  return [name for name in found if name not in known]


def make_tables(base, settings, pairs) -> list[tables.Table]:
  made = []
  for instrument in (None, *stand_ins(base)):
    made += [paper.table_1(base, settings, corpus, instrument) for corpus in base.records]
    made += [paper.table_2(base, settings, instrument), paper.table_19(base, settings, instrument)]
  return [*made, paper.table_17(pairs)] if pairs else made


def write_curves(folder: pathlib.Path, runs: Sequence[runs_lib.Run]) -> list[pathlib.Path]:
  having = {run.name: run.curves for run in runs if run.curves}
  if not having:
    return []
  return figures.save(figures.curves(having), folder / "curves")[1:]


def write_figures(folder, base, settings, pairs, loaded) -> list[pathlib.Path]:
  """The paper's figures; returns the SVG files."""
  made = {
    "figure_1": paper_figures.figure_1(base, settings),
    "figure_2": paper_figures.figure_2(base),
  }
  known = {column.instrument for column in metrics.PAPER if column.instrument}
  papers = [None] if any(known & row["instruments"].keys() for row in base.all()) else []
  for instrument in (*papers, *stand_ins(base)) if settings else ():
    suffix = f"_{instrument}" if instrument else ""
    if over_training := paper_figures.figure_3(base, loaded, instrument):
      made["figure_3" + suffix] = over_training
    made["figure_5" + suffix] = paper_figures.figure_5(base, settings, instrument)
  if pairs:
    made["figure_8"] = paper_figures.figure_8(base, settings, pairs)
  return [figures.save(figure, folder / name)[1] for name, figure in made.items()]


def write_viewers(folder: pathlib.Path, runs: Sequence[runs_lib.Run]) -> dict[str, str]:
  """One page a run, and one with all runs where there are several; title to file name."""
  pages = {}
  for run in runs:
    if run.records:
      pages[run.name] = f"viewer_{re.sub(r'[^A-Za-z0-9.-]+', '_', run.name)}.html"
      viewer.write(folder / pages[run.name], run.records, f"Sentences of {run.name}")
  if len(pages) > 1:
    pages["all runs side by side"] = "viewer_all.html"
    rows = [row for run in runs for row in run.records]
    title = "Sentences of " + ", ".join(run.name for run in runs)
    viewer.write(folder / "viewer_all.html", rows, title)
  return pages


CAPTIONS: Mapping[str, str] = {
  "curves": "Metrics of the training steps.",
  "figure_1": "Figure 1. Copying is the cheap way to be supported.",
  "figure_2": "Figure 2. Errors in authored and in copied sentences.",
  "figure_3": "Figures 3, 6 and 7. Evaluated metrics over training.",
  "figure_5": "Figure 5. From base to each method, corpus by corpus.",
  "figure_8": "Figure 8. Reward gain against win rate.",
}


def render(
  shown,
  written: Sequence[pathlib.Path],
  pages: Mapping[str, str],
  runs,
  captions: Mapping[str, str] = CAPTIONS,
) -> str:
  """The page that holds every table and figure."""
  pictures = []
  for path in written:
    name = re.match(r"curves|figure_\d", path.stem)
    caption = captions[name[0]] if name else path.stem
    instrument = path.stem[len(name[0]) + 1 :] if name else ""
    data = base64.b64encode(path.read_bytes()).decode()
    pictures.append((caption + (f" Measured by {instrument}." if instrument else ""), data))
  return viewer.fill("report.html.j2", tables=shown, pictures=pictures, pages=pages, runs=runs)


if __name__ == "__main__":
  cli.run(
    main,
    fields=None,
    positional="runs",
    paper=Field("asc", "whose tables and figures", choices=("asc", "corver")),
    out=Field(None, "folder of the report; None: report/ in the first RUN", optional=True),
    judgements=Field(
      None,
      "JSON lines of asc_jax.tools.judge; None: judgements.jsonl in the first RUN, if it is there",
      optional=True,
    ),
  )
