"""Trains a policy: python -m asc_jax.main --config=configs/quickstart.py --workdir=DIR.

Evaluates before and after (and on the way, config.train.eval_every), checkpoints,
and goes on from the newest checkpoint when it is started again.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import resource
import sys
import time

from absl import logging
from ml_collections import config_dict

from asc_jax import cli
from asc_jax import config as config_lib

SHARES = {
  "advantage/nonzero_groups": "groups with non-zero advantages",
  "corver/nonzero_tokens": "tokens with non-zero advantages",
  "corver/tied_groups": "groups whose mean returns agree, which teach nothing",
  "corver/clipped_tokens": "tokens with clipped advantages",
  "corver/looked_up": "sentences that were looked up",
  "rollout/truncated": "answers cut off by config.rollout.max_tokens",
  "text/short_sentences": "sentences under five words",
}


def main(config: config_dict.ConfigDict, workdir: str) -> None:
  # jax and the model code load after the flags are known to be right.
  from asc_jax.evaluation import completions, records
  from asc_jax.rl import methods

  started = time.perf_counter()
  folder = pathlib.Path(workdir)
  kind = completions.evaluator_of(config)
  for path in sorted((folder / "records").glob("*.jsonl")):
    records.read(path, kind.schema)  # a damaged one is refused before weights load
  trainer = methods.loop_of(config)(config, folder)
  report_work("training", trainer.train_work)
  report_work("evaluation", trainer.eval_work)
  write_config(folder, config)
  evaluator = kind.of(trainer)

  def records_path(step):
    return folder / "records" / f"step_{step:06d}.jsonl"

  def evaluate(trainer, step):
    with trainer.clock("evaluation"):
      return evaluator.run(trainer.model, step, records_path(step))

  before = trainer.digest()
  base = evaluate(trainer, 0) if trainer.first_step == 0 or records_path(0).exists() else []
  means = trainer.run(folder, evaluate)
  trained = evaluate(trainer, trainer.steps)
  after = trainer.digest()

  print("\nwhere the time went:")
  print(trainer.clock.table())
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  print(f"  {time.perf_counter() - started:.1f} s in all, peak memory {peak:.2f} GB\n")
  if trained:
    answers = {"base": base, "trained": trained} if base else {"trained": trained}
    print(evaluator.terminal(answers) + "\n")
  for name, label in SHARES.items():
    if name in means:
      print(f"{label}: {100 * means[name]:.1f} %")
  failures = shortcomings(means, before != after, config)
  for failure in failures:
    print(f"FAILED: {failure}")
  print(f"sha256 of the trained parameters: {after}")
  if failures:
    sys.exit(1)


def shortcomings(means: dict[str, float], changed: bool, config) -> list[str]:
  """What shows that this run's steps taught nothing."""
  if not means:  # a finished run, started again
    return []
  found = [] if changed else ["no parameter changed"]
  for name, what, wanted in (
    ("advantage/nonzero_groups", "groups", config.train.min_nonzero_groups),
    ("corver/nonzero_tokens", "tokens", config.corver.min_nonzero_tokens),
  ):
    if means.get(name, 1.0) < wanted:
      found.append(
        f"{100 * means[name]:.1f} % of {what} had non-zero advantages, under {100 * wanted:.1f} %"
      )
  return found


def report_work(kind: str, work) -> None:
  """What the corpus gave, and what was left out and why."""
  left_out = "; ".join(f"{reason}: {count}" for reason, count in work.counts.items() if count)
  print(f"{kind} questions: {len(work.questions)}" + (f" ({left_out})" if left_out else ""))


def write_config(folder: pathlib.Path, config: config_dict.ConfigDict) -> None:
  """Prints the resolved config, a line a section, and keeps it beside the run."""
  flat = config_lib.flatten(config)

  def section_of(name):
    return name.rpartition(".")[0]

  for section, names in itertools.groupby(sorted(flat, key=section_of), section_of):
    fields = (f"{name.rpartition('.')[2]}={flat[name]}" for name in names)
    logging.info("config.%s", f"{section}: {' '.join(fields)}".lstrip(": "))
  partial = folder / "config.json.partial"
  partial.write_text(json.dumps(flat, indent=2) + "\n", encoding="utf-8")
  os.replace(partial, folder / "config.json")


if __name__ == "__main__":
  cli.run(main, needs_workdir=True)
