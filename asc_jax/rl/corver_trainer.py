"""CorVer's training: sampled completions, rewarded by corpus, answer and format."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from ml_collections import config_dict
from tqdm import tqdm

from asc_jax import checkers, sharding
from asc_jax.corver import learning_zone, reward, verify
from asc_jax.models import checkpoints, decoder
from asc_jax.rl import extractor, logs, loop, rollouts, sampler, trainer, update
from asc_jax.text import alignment
from asc_jax.types import Array, Example, Prompts, Rollout, Sample, UserError, Weighted


class Batch(NamedTuple):
  """Everything one update reads."""

  prompts: Prompts
  rollout: Rollout
  token_mask: Array  # bool[B, G, T], tokens that carry loss
  rewards: reward.Rewards
  old_logps: Array | None  # float32[B, G, T]; None: one update a batch
  ref_logps: Array | None  # float32[B, G, T]; None: beta is 0


class CorverTrainer(trainer.SampledLoop):
  """Trains on token-level returns of completions, without or with passages."""

  def read_training(self) -> loop.Work:
    config = self.config
    self.verifier = self._open_verifier()
    work = loop.training_questions(self.tokenizer, config)
    work = with_aliases(work, config.data.corpus)
    if config.corver.verifier == "checker":
      work = trainer.with_passages(work, config)
    if config.corver.pass_rates is not None:
      learning_zone.check(config.corver.pass_rates, self._zone_settings())
    return work

  def _read_eval_questions(self) -> loop.Work:
    work = super()._read_eval_questions()
    corpus = self.config.eval.corpus or self.config.data.corpus
    return with_aliases(work, corpus) if work.questions else work

  def load_checker(self) -> Any:
    if self.config.corver.verifier != "checker":
      return None
    return checkers.from_config(self.config.checker, self.mesh)

  def _open_verifier(self) -> verify.Verifier:
    """The rewards of sentences, as far as they need no weights."""
    section = self.config.corver
    if section.verifier == "checker":
      return verify.CheckerVerifier(
        lambda documents, sentences: self.checker.score(documents, sentences),
        self.config.checker.threshold,
      )
    if verify.generates(section):
      checkpoints.check(section.extractor)
    return verify.from_config(section, lambda requests: self._generator(requests))

  def _load_model(self) -> decoder.DecoderState:
    """The policy; before it learns anything, the learning zone is measured with it."""
    model, section = super()._load_model(), self.config.corver
    if verify.generates(section):
      dtype = loop.compute_type(self.config.model.dtype)
      self._generator = extractor.load(section, dtype=dtype, mesh=self.mesh)
    if section.pass_rates is not None:
      self._enter_zone(model)
    return model

  # The learning zone.

  def _zone_settings(self) -> dict[str, Any]:
    """What a pass rate depends on besides its question."""
    config = self.config
    fields = ("zone_samples", "zone_temperature", "zone_top_p", "think_tag", "answer_tag")
    return {
      "model": config.model.path,
      "instruction": config.data.instruction,
      "max_tokens": config.rollout.max_tokens,
      "seed": config.seed,
      **{name: config.corver[name] for name in fields},
    }

  def _enter_zone(self, model: decoder.DecoderState) -> None:
    """Keeps the questions that the untrained policy sometimes gets right, and anchors."""
    section, questions = self.config.corver, self.train_work.questions
    examples = [q.example for q in questions]
    with tqdm(desc="learning zone", unit="question") as bar:
      passed = learning_zone.measure(
        examples,
        lambda batch: self._judge(model, batch, bar),
        section.pass_rates,
        settings=self._zone_settings(),
        batch_size=self.config.data.batch_size,
      )
    kept = learning_zone.select(
      examples,
      passed,
      samples=section.zone_samples,
      low=section.zone_low,
      high=section.zone_high,
      anchors=section.anchors,
      seed=self.config.seed,
    )
    ids = {example.id for example in kept}
    counts = {**self.train_work.counts, "outside the learning zone": len(examples) - len(kept)}
    self.train_work = loop.Work([q for q in questions if q.example.id in ids], counts)
    self.iterator, self.steps = self._batches(), self._count_steps()

  def _judge(
    self, model: decoder.DecoderState, examples: Sequence[Example], bar: tqdm
  ) -> list[list[bool]]:
    """Whether each of the zone's samples is correct, one list a question."""
    section = self.config.corver
    asked = {q.example.id: q for q in self.train_work.questions}
    group = [asked[example.id] for example in examples]
    settings = self.sampling._replace(
      group_size=section.zone_samples,
      temperature=section.zone_temperature,
      top_k=0,
      top_p=section.zone_top_p,
    )
    drawn = sampler.sample_questions(
      model, group, self.key, settings, data=self.config.data, mesh=self.mesh
    )
    completions, _ = read(self.tokenizer, group, drawn, self.config)
    bar.update(len(group))
    return [[c.outcome == "correct" for c in own] for own in completions]

  # The parts of a step.

  def gradients(self, model: decoder.DecoderState, batch: Batch) -> update.Gradients:
    advantages, metrics = token_advantages(batch, reward.objective(self.config))
    loss, grads, more = update.surrogate(model, batch, advantages, self.settings)
    return loss, grads, metrics | more

  def batch(self, items: Sequence[rollouts.Question], step: int) -> tuple[Batch, logs.Host]:
    prompt, drawn, host, old, reference = self.draw(items, step)
    started = time.perf_counter()
    with self.clock("sentence rewards"):
      completions, spans = read(self.tokenizer, items, host, self.config, self.verifier)
      most = max(len(c.spans) for group in completions for c in group)
      rewards = reward.pack(
        completions,
        spans,
        max_tokens=self.config.rollout.max_tokens,
        max_sentences=rollouts.sentence_bucket(most),
      )
      mask = rollouts.token_mask(host, rewards.sentence_ids, self.config.rollout.truncated)
    ended = time.perf_counter()
    mask, rewards = sharding.spread_questions((mask, rewards), self.mesh)
    text = f"**{items[0].example.question}**\n\n{completions[0][0].text}"
    scalars = host_metrics(completions)
    scalars["time/sentence_rewards"] = ended - started
    seen = logs.Host(scalars, int(host.lengths.sum()), {"answer": text})
    return Batch(prompt, drawn, mask, rewards, old, reference), seen


def load_verifier(config: config_dict.ConfigDict, mesh: jax.sharding.Mesh) -> verify.Verifier:
  """The rewards of sentences, with the weights that they need; for a policy that stands.

  Raises:
    UserError: the checker, the index or the extractor is not what it should be.
  """
  section = config.corver
  if section.verifier == "checker":
    checker = checkers.from_config(config.checker, mesh)
    return verify.CheckerVerifier(checker.score, config.checker.threshold)
  opened = verify.from_config(section, lambda requests: generator(requests))
  if verify.generates(section):  # its weights load once the index is known to be right
    dtype = loop.compute_type(config.model.dtype)
    generator = extractor.load(section, dtype=dtype, mesh=mesh)
  return opened


def with_aliases(work: loop.Work, corpus: str) -> loop.Work:
  """The questions with short answers, by which an answer is judged.

  Raises:
    UserError: no question has any.
  """
  kept = [q for q in work.questions if q.example.aliases]
  if not kept:
    raise UserError(
      f"corpus {corpus} has no short answers, and config.corver.on judges answers by them; "
      "choose a corpus that has them, such as nq_open"
    )
  dropped = Counter(work.counts)
  dropped["no short answers"] += len(work.questions) - len(kept)
  return loop.Work(kept, dict(dropped))


def no_verdicts(sentences: Sequence[str], examples: Sequence[Example]) -> list[verify.Verdict]:
  """The verifier of who only wants answers judged."""
  del examples
  return [verify.Verdict(0.0)] * len(sentences)


def read(
  tokenizer,
  questions: Sequence[rollouts.Question],
  rollout: Rollout,
  config: config_dict.ConfigDict,
  verifier: verify.Verifier = no_verdicts,
) -> tuple[list[list[reward.Completion]], list[list[list[tuple[int, int]]]]]:
  """B lists of G completions, scored, and the character spans of their tokens.

  Args:
    tokenizer: the policy's.
    questions: B.
    rollout: NumPy arrays [B, G, ...].
    config: the whole config; its section `corver` has the scores.
    verifier: rewards the sentences, all in one call.
  """
  size = rollout.tokens.shape[1]
  decoded = [
    alignment.decode(tokenizer, rollout.tokens[b, g, : rollout.lengths[b, g]].tolist())
    for b, g in np.ndindex(len(questions), size)
  ]
  examples = [q.example for q in questions for _ in range(size)]
  flat = reward.score([t for t, _ in decoded], examples, verifier, reward.scores(config.corver))
  spans = [own for _, own in decoded]
  starts = range(0, len(flat), size)
  return [flat[i : i + size] for i in starts], [spans[i : i + size] for i in starts]


def token_advantages(
  batch: Batch, settings: reward.Objective
) -> tuple[jax.Array, dict[str, Weighted | Sample]]:
  """Every token's advantage, float32[B, G, T], and the rewards' metrics."""
  advantages, metrics = reward.token_advantages(batch.rewards, batch.token_mask, settings)
  return advantages, {
    **metrics,
    **update.rollout_metrics(batch.rollout, advantages),
    "advantage/token": Sample(advantages, batch.token_mask),
  }


def host_metrics(completions: Sequence[Sequence[reward.Completion]]) -> dict[str, float]:
  """Means over completions, and over their sentences, of what only the host sees."""
  flat = [c for group in completions for c in group]
  verdicts = [v for c in flat for v in c.verdicts]
  asked = [v for v in verdicts if v.occurrences is not None]
  outcomes = Counter(c.outcome for c in flat)
  return {
    "corver/correct": outcomes["correct"] / len(flat),
    "corver/refused": outcomes["refused"] / len(flat),
    "corver/formatted": sum(c.blocks.well_formed for c in flat) / len(flat),
    "corver/sentences": len(verdicts) / len(flat),
    "corver/sentence_reward": sum(v.reward for v in verdicts) / max(len(verdicts), 1),
    "corver/looked_up": len(asked) / max(len(verdicts), 1),
    "corver/unheard": sum(v.occurrences == 0 for v in asked) / max(len(asked), 1),
  }
