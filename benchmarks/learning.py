"""Does training teach? Credit per sentence before and after, by method and seed.

  python benchmarks/learning.py --workdir=DIR --path=CLAPNQ --model=FOLDER \
    --arms=asc,shuffled,grpo --seeds=0,1,2
  python benchmarks/learning.py --from-records

Each run trains configs/learning.py with one arm and seed and answers the same 32
questions, unseen before, with the same random keys before and after. What is kept
is sums over each question's answers (benchmarks/learning.jsonl, numbers only), from
which `--from-records` prints the table: changes with paired bootstrap intervals over
questions, 10,000 resamples, every rate a ratio of resampled sums.

Arms: `asc`; `shuffled`, the same with the verdicts of a question's sentences dealt out
again at random, so that nothing can be learned from them; `grpo`, the supported share R
as the reward of the answer; `shorter`, the answer's words as a penalty, a reward that any
working update learns.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import pathlib
import re
import runpy
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "learning.jsonl"
ARMS = {"asc": "asc", "shuffled": "asc", "grpo": "grpo", "shorter": "copy_penalty"}
SHOWN = ("Credit [minilm]", "R [minilm]", "Copy", "Vac [minilm]", "Words", "Ref")


def run(arm: str, seed: int, args: argparse.Namespace) -> None:
  """Trains one arm and adds its questions' sums to the records."""
  from asc_jax import config as config_lib
  from asc_jax.evaluation import metrics, policy

  get_config = runpy.run_path(str(ROOT / "configs/learning.py"))["get_config"]
  config = config_lib.apply_method(get_config(), ARMS[arm])
  config.seed = seed
  config.model.path, config.data.path = args.model, args.path
  if args.learning_rate:
    config.optimizer.learning_rate = args.learning_rate
  workdir = pathlib.Path(args.workdir) / f"{arm}_{seed}"
  base = pathlib.Path(args.workdir) / "base" / "records" / "step_000000.jsonl"

  trainer = trainer_of(arm)(config, workdir)
  wide = copy.deepcopy(config)
  wide.credit = get_config().credit  # every arm is measured by sentence credit
  wide.data.batch_size = 8  # decoding 64 answers at once costs little more than 16
  # The 32 before were looked at while learning rate and temperature were chosen.
  unseen = trainer.eval_work.questions[32:64]
  evaluator = dataclasses.replace(policy.Evaluator.of(trainer), config=wide, questions=unseen)
  before = evaluator.run(trainer.model, 0, base)  # an untrained adapter: the same for all
  trainer.run(workdir)
  after = evaluator.run(trainer.model, trainer.steps, workdir / "records" / "step.jsonl")

  table = [c for c in metrics.columns(before) if c.name in SHOWN]
  with open(args.records, "a", encoding="utf-8") as file:
    for step, records in ((0, before), (trainer.steps, after)):
      ids, sums = metrics.question_sums(records, table)
      for (_, question), row in zip(ids, sums.tolist(), strict=True):
        values = {column.name: pair for column, pair in zip(table, row, strict=True)}
        line = {"arm": arm, "seed": seed, "step": step, "question": question, **values}
        file.write(json.dumps(line) + "\n")


def trainer_of(arm: str):
  """The loop that trains an arm; controls change what the update is told."""
  import jax

  from asc_jax.rl import trainer

  class Shuffled(trainer.Trainer):
    """Deals out the verdicts of each question's sentences among them."""

    def batch(self, items, step):
      batch, host = super().batch(items, step)
      rng = np.random.default_rng((self.config.seed, step))
      sentences, scores = jax.device_get((batch.sentences, batch.scores))
      fields = [sentences.complete, sentences.copied, scores.supported, scores.vacuous]
      shuffled = [np.array(field) for field in fields]
      for b, mask in enumerate(sentences.mask & ~sentences.pseudo):
        order = rng.permutation(mask.sum())
        for field in shuffled:
          field[b][mask] = field[b][mask][order]
      complete, copied, supported, vacuous = shuffled
      return batch._replace(
        sentences=sentences._replace(complete=complete, copied=copied),
        scores=scores._replace(supported=supported, vacuous=vacuous),
      ), host

  class Shorter(trainer.Trainer):
    """Only the length counts: no verdicts, and tokens where the copied share stood."""

    def batch(self, items, step):
      batch, host = super().batch(items, step)
      lengths = batch.rollout.lengths / self.config.rollout.max_tokens
      none = batch.scores.supported * np.float32(np.nan)
      sentences = batch.sentences._replace(copy_share=lengths.astype(np.float32))
      return batch._replace(sentences=sentences, scores=batch.scores._replace(supported=none)), host

  return {"shuffled": Shuffled, "shorter": Shorter}.get(arm, trainer.Trainer)


def table(rows: list[dict]) -> str:
  """Markdown: one line an arm and seed, base first."""
  from asc_jax.evaluation import bootstrap

  runs: dict[tuple[str, int], dict[int, dict[str, dict]]] = {}
  for row in rows:
    steps = runs.setdefault((row["arm"], row["seed"]), {})
    steps.setdefault(row["step"], {})[row["question"]] = row
  lines = [
    "| run | credit % | change [95 %] | R % | Copy % | Vac % | Words | Ref % |",
    "|---|---|---|---|---|---|---|---|",
  ]
  for place, ((arm, seed), steps) in enumerate(runs.items()):
    (_, before), (_, after) = sorted(steps.items())
    sums = np.array(
      [[[side[q][name] for name in SHOWN] for side in (before, after)] for q in before]
    )  # [questions, 2, columns, 2]
    values = ratios(sums.sum(axis=0))  # [2, columns]
    drawn = ratios(bootstrap.resampled(sums[:, :, :1], resamples=10_000, seed=0))[..., 0]
    low, high = bootstrap.interval(drawn[:, 1] - drawn[:, 0])
    if not place:
      lines.append(line("before", values[0], ""))
    change = f"{values[1, 0] - values[0, 0]:+.1f} [{low:+.1f}, {high:+.1f}]"
    lines.append(line(f"{arm}, seed {seed}", values[1], change))
  return "\n".join(lines)


def ratios(sums: np.ndarray) -> np.ndarray:
  """[..., columns, 2] sums to values: percent, but words."""
  scale = np.array([1.0 if name == "Words" else 100.0 for name in SHOWN])[: sums.shape[-2]]
  return scale * sums[..., 0] / sums[..., 1]


def line(name: str, values: np.ndarray, change: str) -> str:
  credit, *rest = (f"{v:.1f}" for v in values)
  return f"| {name} | {' | '.join((credit, change, *rest))} |"


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("--from-records", action="store_true", help="print the table only")
  parser.add_argument("--records", default=str(RECORDS), help="JSONL of sums")
  parser.add_argument("--workdir", default="runs/learning")
  parser.add_argument("--path", help="ClapNQ file or folder")
  parser.add_argument("--model", default="smollm2", help="a folder, a .gguf file or smollm2")
  parser.add_argument("--arms", default="asc", help="of " + ", ".join(ARMS))
  parser.add_argument("--seeds", default="0")
  parser.add_argument("--learning-rate", type=float, help="another than the config's")
  args = parser.parse_args()
  arms, records = args.arms.split(","), pathlib.Path(args.records)
  if unknown := set(arms) - set(ARMS):
    parser.error(f"--arms: there is no {min(unknown)!r}; there are {', '.join(ARMS)}")
  if not re.fullmatch(r"\d+(,\d+)*", args.seeds):
    parser.error(f"--seeds takes integers with commas between, not {args.seeds!r}")
  if not args.from_records:
    from asc_jax.types import UserError

    try:
      for arm in arms:
        for seed in args.seeds.split(","):
          run(arm, int(seed), args)
    except UserError as error:
      parser.error(str(error))
  if not records.is_file() or not records.stat().st_size:
    parser.error(f"{records} does not exist or is empty; run an arm first")
  try:
    shown = table([json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()])
  except (ValueError, KeyError, TypeError, AttributeError) as error:
    parser.error(f"{records} holds no sums of finished runs ({error!r}); name another file")
  print(shown)


if __name__ == "__main__":
  sys.path.insert(0, str(ROOT))
  main()
