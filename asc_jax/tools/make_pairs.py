"""Makes DPO's pairs: samples answers from the base model, takes the best and the worst by R.

  python -m asc_jax.tools.make_pairs --config=configs/quickstart.py --out=pairs.jsonl
  python -m asc_jax.tools.make_pairs --config=configs/quickstart.py --out=matched.jsonl \\
    --samples=pairs.jsonl.samples --config.method=dpo_copy_matched

Every question of the training part is answered `rollout.group_size` times by the model as
it is loaded, and R is the share of an answer's sentences that `config.checker` supports.
With `dpo.copy_tolerance` set, only answers whose Copy differs by no more make a pair.

`--samples` keeps the scored answers. Started again, the program goes on where that file
ends; once all are there, other pairs are chosen from them in a moment. `--out` is
written at the end, whole or not at all, and its statistics are printed.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from asc_jax import cli
from asc_jax import config as config_lib
from asc_jax.config import Field
from asc_jax.data import files, preferences
from asc_jax.types import UserError

# What decides which answers are drawn and what R they have; all else may change between
# two starts.
DECISIVE = ("seed", "model.path", "model.dtype", "data.", "rollout.", "text.", "checker.")
INDIFFERENT = (
  "data.batch_size", "rollout.truncated", "rollout.is_cap", "text.trailing", "text.empty_answer",
  "checker.cache", "checker.tokens_per_batch", "checker.score_copied",
)  # fmt: skip


def main(config, out: str | None, samples: str | None) -> None:
  """Samples what is not there yet, chooses the pairs and writes them."""
  if not out:
    raise UserError("--out=FILE is missing: where the pairs are written")
  kept = pathlib.Path(samples or f"{out}.samples")
  for path in (pathlib.Path(out), kept):
    if not path.absolute().parent.is_dir() or path.is_dir():
      raise UserError(f"{path} cannot be written; name a file in a folder that exists")
  if kept.absolute() == pathlib.Path(out).absolute():
    raise UserError(f"--samples and --out both name {out}; give each its own file")
  if config.rollout.group_size < 2:
    raise UserError("a pair is two answers: config.rollout.group_size must be at least 2")
  if not config.checker.score_copied:
    raise UserError("R needs the score of every sentence: config.checker.score_copied=True")

  # jax and the model code load after the flags are known to be right.
  from asc_jax.models import checkpoints
  from asc_jax.rl import loop, trainer

  checkpoint = loop.check_model(config)
  tokenizer = checkpoints.load_tokenizer(config.model.path)
  work = loop.training_questions(tokenizer, config)
  questions = trainer.with_passages(work, config).questions
  fields = decisive(config)
  done = resume(kept, fields)
  known = {sample[:2] for sample in done}  # corpus and id
  todo = [q for q in questions if (q.example.corpus, q.example.id) not in known]
  for sample in draw(config, tokenizer, checkpoint.generation, todo) if todo else ():
    append(kept, fields, sample)
    done.append(sample)
  found = [preferences.choose(sample, config.dpo.copy_tolerance) for sample in done]
  pairs = [pair for pair in found if pair is not None]
  print(preferences.statistics(done, pairs))
  if not pairs:
    raise UserError(
      "no question has two answers that make a pair; raise config.rollout.group_size, "
      "config.rollout.temperature or config.dpo.copy_tolerance"
    )
  preferences.write(out, pairs)
  print(f"written: {out}, {kept}")


def decisive(config) -> dict[str, Any]:
  """The fields that the samples follow from, as JSON keeps them."""
  flat = config_lib.flatten(config)
  chosen = {k: v for k, v in flat.items() if k.startswith(DECISIVE) and k not in INDIFFERENT}
  return json.loads(json.dumps(chosen))


def append(path: pathlib.Path, fields: dict[str, Any], sample: preferences.Sample) -> None:
  """Adds a line to a file of samples; a new one begins with what they follow from."""
  head = "" if path.exists() and path.stat().st_size else json.dumps({"config": fields}) + "\n"
  with open(path, "a", encoding="utf-8") as file:
    file.write(head + preferences.encode(sample))


def resume(path: pathlib.Path, fields: dict[str, Any]) -> list[preferences.Sample]:
  """The samples that a file holds, none where it is not there yet.

  Raises:
    UserError: the file is malformed, or its answers follow from other fields.
  """
  from asc_jax.rl import checkpointing

  files.cut_tail(path)
  if not path.exists() or not path.stat().st_size:
    return []
  saved, samples = preferences.read_samples(path)
  if changes := checkpointing.config_diff(saved, fields, harmless=()):
    raise UserError(
      f"{path} holds answers sampled under another config ({'; '.join(changes)}); name another "
      "--samples file"
    )
  return samples


def draw(config, tokenizer, generation, questions: Sequence[Any]) -> Iterator[preferences.Sample]:
  """Samples and scores, a batch of questions at a time."""
  import jax
  import numpy as np
  from tqdm import tqdm

  from asc_jax import checkers
  from asc_jax.models import checkpoints
  from asc_jax.objective import credit
  from asc_jax.rl import loop, rollouts, sampler, update
  from asc_jax.text import prompts

  mesh = loop.make_mesh(config)
  checker = checkers.from_config(config.checker, mesh)
  dtype = loop.compute_type(config.model.dtype)
  model, _ = checkpoints.load(config.model.path, dtype=dtype, param_dtype=dtype, mesh=mesh)
  sampling = sampler.from_config(config.rollout, prompts.stop_ids(tokenizer, generation))
  settings = update.objective(config)
  key = jax.random.key(config.seed)
  size = config.data.batch_size
  for start in tqdm(range(0, len(questions), size), unit="batch"):
    group = questions[start : start + size]
    drawn = sampler.sample_questions(model, group, key, sampling, data=config.data, mesh=mesh)
    answers = rollouts.read_answers(tokenizer, group, drawn, config.text)
    bucket = rollouts.sentence_bucket(max(len(a.spans) for row in answers for a in row))
    packed = rollouts.pack_sentences(answers, sampling.max_tokens, "sentence", bucket)
    scores = rollouts.score(checker, group, answers, bucket)
    _, supported = update.credits(packed, scores, settings)
    shares = np.asarray(credit.support_share(supported, packed.mask))  # [B, G]
    real = packed.mask & ~packed.pseudo
    failed = (np.isnan(scores.supported) & real).any(-1)  # no verdict, so no R
    for b, question in enumerate(group):
      yield preferences.Sample(
        question.example.corpus,
        question.example.id,
        question.example.question,
        tuple(
          preferences.Scored(
            a.text, a.finished, float(shares[b, g]), a.copy_share, len(a.copy_mask)
          )
          for g, a in enumerate(answers[b])
          if not failed[b, g]
        ),
      )


if __name__ == "__main__":
  cli.run(
    main,
    out=Field(None, "file of pairs to write", optional=True),
    samples=Field(
      None, "file of the scored answers, continued where it ends; None: OUT.samples", optional=True
    ),
  )
