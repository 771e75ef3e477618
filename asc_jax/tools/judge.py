"""Pairs of whole answers shown to a judge in both orders: win rates, and probes of its rubric.

  python -m asc_jax.tools.judge RUN... --judge=MODEL [--rubrics=faithful] [--out=FILE.jsonl]

A RUN is what asc_jax.report takes: the answers at step 0 are the base model's, each run's
last step is a method. MODEL is any decoder that config.model.path could name. A rubric is
one of this project's (plain, faithful, strict) or a text file; several with commas.

Each method's answer is judged against base's; ties and disagreements between the two orders
count as half a win. The probes need base answers alone: each is set against its copied form,
against itself padded, and against itself with an error planted. A rubric is fit for use where
copied form wins about half of the time, padding at most half, and planted errors lose.

The judge's weights are split over all devices. Judgements are appended to --out (judgements.jsonl in the first RUN) a question at a time, and
the same command goes on where a killed one stopped. Prints Table 17; `asc_jax.report` takes
the file as --judgements=FILE.
"""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
from collections.abc import Sequence

from absl import logging
from tqdm import tqdm

from asc_jax import cli, sharding
from asc_jax.checkers import pair_judge
from asc_jax.config import Field
from asc_jax.data import files
from asc_jax.evaluation import pairwise, paper, runs, tables
from asc_jax.types import UserError


def main(
  paths: Sequence[str],
  judge: str | None,
  rubrics: str,
  out: str | None,
  probes: bool,
  questions: int | None,
  seed: int,
  dtype: str = "float32",
) -> None:
  """Judges what is not judged yet and prints the rates."""
  if not judge:
    raise UserError("--judge=MODEL is missing: a checkpoint folder, a .gguf file or smollm2")
  base, settings = runs.split(runs.load_all(paths))
  pairs = [pair for setting in settings if base for pair in pairwise.contests(base, setting)]
  pairs += pairwise.probes(base, seed=seed) if probes and base else []
  pairs = of_first_questions(pairs, questions)
  if not pairs:
    raise UserError(f"{paths[0]} holds nothing to judge; evaluate a method too, or --probes=true")
  first = pathlib.Path(paths[0])
  target = (first if first.is_dir() else first.parent) / "judgements.jsonl"
  target = pathlib.Path(out) if out else target
  chosen = list(dict.fromkeys(name for name in map(str.strip, rubrics.split(",")) if name))
  if not chosen:
    raise UserError(f"--rubrics names none; there are {', '.join(pair_judge.rubrics())}")
  read(target)  # a damaged one is refused before weights load
  files.check_folder(target.parent, "--out")
  judges = pair_judge.load(judge, chosen, dtype=dtype, mesh=sharding.make_mesh(tensor=-1))
  files.make_folder(target.parent, "--out")  # nothing is written before all else is right
  found = []
  for loaded in judges:
    found += judge_all(pairs, loaded, runs.names([judge])[0], target)
  if not found:
    raise UserError("every pair is too long for the judge; shorten the passages or take another")
  for task, count in collections.Counter(pair.task for pair in pairs).items():
    logging.info("%s: %d pairs", task, count)
  print(tables.markdown(paper.table_17(found)))
  print(f"{target}: {len(found)} judgements")


def of_first_questions(pairs: Sequence[pairwise.Pair], count: int | None) -> list[pairwise.Pair]:
  """The pairs of each corpus's first `count` questions, those of a question together."""
  by_corpus: dict[str, dict[str, list[pairwise.Pair]]] = {}
  for pair in pairs:
    by_corpus.setdefault(pair.corpus, {}).setdefault(pair.id, []).append(pair)
  return [
    pair
    for by_id in by_corpus.values()
    for group in itertools.islice(by_id.values(), count)
    for pair in group
  ]


def judge_all(
  pairs: Sequence[pairwise.Pair], judge: pair_judge.PairJudge, model: str, path: pathlib.Path
) -> list[pairwise.Judgement]:
  """The judgements of all pairs; those that the file lacks are made and appended to it."""
  name = f"{model} {judge.weights_hash[:8]}"
  files.cut_tail(path)
  known = {key_of(row): row for row in read(path)}
  groups = itertools.groupby(pairs, lambda pair: (pair.corpus, pair.id))
  left_out = 0
  for _, group in tqdm(
    [(key, list(group)) for key, group in groups], judge.rubric.name, unit="question"
  ):
    new = [pair for pair in group if (name, judge.rubric.name, *pair[:5]) not in known]
    verdicts = judge.compare([shown for pair in new for shown in both_orders(pair)])
    for pair, orders in zip(new, zip(verdicts[::2], verdicts[1::2], strict=True), strict=True):
      forward, backward = orders
      if forward is None or backward is None:
        left_out += 1
        continue
      row = judgement(name, judge.rubric.name, pair, forward, backward)
      known[key_of(row)] = row
      append(path, row)
  if left_out:
    logging.warning("%s: %d pairs are too long to be judged", judge.rubric.name, left_out)
  keys = [(name, judge.rubric.name, *pair[:5]) for pair in pairs]
  return [known[key] for key in keys if key in known]


def both_orders(pair: pairwise.Pair) -> list[pair_judge.Shown]:
  """The pair with a first, then with b first."""
  return [
    pair_judge.Shown(pair.question, pair.passages, *texts)
    for texts in (pair.texts, pair.texts[::-1])
  ]


def judgement(name: str, rubric: str, pair, forward: str, backward: str) -> pairwise.Judgement:
  return {
    "judge": name,
    "rubric": rubric,
    "task": pair.task,
    "corpus": pair.corpus,
    "id": pair.id,
    "a": pair.a,
    "b": pair.b,
    "forward": pairwise.preferred(forward, swapped=False),
    "backward": pairwise.preferred(backward, swapped=True),
  }


def key_of(row: pairwise.Judgement) -> tuple[str, ...]:
  """What is judged once: all but the verdicts."""
  return row["judge"], row["rubric"], row["task"], row["corpus"], row["id"], row["a"], row["b"]


def read(path: pathlib.Path) -> list[pairwise.Judgement]:
  return runs.read_lines(path, pairwise.problem) if path.exists() else []


def append(path: pathlib.Path, row: pairwise.Judgement) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "a", encoding="utf-8") as file:
    file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
  cli.run(
    main,
    fields=None,
    positional="paths",
    judge=Field(None, "the judge: a checkpoint folder, a .gguf file, or smollm2", optional=True),
    rubrics=Field("faithful", "names of packaged rubrics, or text files, with commas"),
    out=Field(None, "file of judgements; None: judgements.jsonl in the first RUN", optional=True),
    probes=Field(True, "probe the rubrics with base answers", bool),
    questions=Field(
      None, "first questions judged of each corpus; None: all", int, low=1, optional=True
    ),
    seed=Field(0, "of the planted errors", int, low=0),
    dtype=Field("float32", "the judge's weights and computation", choices=("float32", "bfloat16")),
  )
