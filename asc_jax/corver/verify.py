"""What the corpus says of a sentence: how often the two ends of its fact meet.

`CorpusVerifier` is one `Verifier`, `CheckerVerifier` another; any other instrument that
judges sentences one by one (a knowledge base) plugs in by returning `Verdict`s.
"""

from __future__ import annotations

import bisect
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from ml_collections import config_dict

from asc_jax.config import nearest
from asc_jax.corver import build, triplets
from asc_jax.corver.index import Count, open_index
from asc_jax.corver.triplets import Triplet
from asc_jax.data.documents import document
from asc_jax.types import Example, UserError


class Verdict(NamedTuple):
  """A sentence's reward, with what it rests on."""

  reward: float
  triplet: Triplet | None = None
  words: tuple[str, ...] = ()
  occurrences: int | None = None  # None where nothing was looked up
  approximate: bool = False


class Verifier(Protocol):
  """Sentences, and the question that each one answers, to verdicts, one a sentence."""

  def __call__(self, sentences: Sequence[str], examples: Sequence[Example]) -> list[Verdict]: ...


Rule = Literal["first_valid", "min", "relcheck"]


class Levels(NamedTuple):
  """A step function from counts to rewards: `rewards[i]` from `starts[i]` on."""

  starts: tuple[int, ...]  # rising from 0
  rewards: tuple[float, ...]

  def level(self, count: int) -> int:
    return bisect.bisect_right(self.starts, count) - 1


# Preset names: how many levels, and their values where the public code has them.
PRESETS = {"four_level": (4, "0:-0.3,1:-0.1,5:0,20:0.1"), "three_level": (3, None)}


def parse_levels(text: str) -> Levels:
  """Reads `count:reward,...`, a preset's name, or `preset=count:reward,...`.

  Examples:
    >>> parse_levels("four_level")
    Levels(starts=(0, 1, 5, 20), rewards=(-0.3, -0.1, 0.0, 0.1))
    >>> parse_levels("three_level=0:-0.2,3:0,30:0.2").level(29)
    1

  Raises:
    UserError: the text is none of these, or a preset without values.
  """
  name, _, values = text.partition("=") if not text[:1].isdigit() else ("", "", text)
  wanted = None
  if name:
    if name not in PRESETS:
      raise UserError(
        f"config.corver.levels is count:reward pairs or one of {', '.join(PRESETS)}, "
        f"not {text!r}{nearest(name, PRESETS)}"
      )
    wanted, default = PRESETS[name]
    values = values or default or ""
    if not values:
      raise UserError(
        f"config.corver.levels={name} needs explicit values, the paper's are not known: "
        f"{name}=0:LOW,FIRST:MIDDLE,SECOND:HIGH with FIRST and SECOND the two counts"
      )
  try:
    pairs = [pair.split(":") for pair in values.split(",")]
    levels = Levels(tuple(int(a) for a, _ in pairs), tuple(float(b) for _, b in pairs))
    if not np.isfinite(levels.rewards).all():
      raise ValueError(levels.rewards)
  except ValueError:
    raise UserError(
      f"config.corver.levels={text!r} is not a list of count:reward like {PRESETS['four_level'][1]}"
    ) from None
  if levels.starts[0] != 0 or list(levels.starts) != sorted(set(levels.starts)):
    raise UserError(f"config.corver.levels={text!r} has counts that do not rise from 0")
  if wanted and len(levels.starts) != wanted:
    raise UserError(f"config.corver.levels={text!r} has {len(levels.starts)} levels, not {wanted}")
  return levels


class CorpusVerifier:
  """Rewards a sentence for how often the ends of its fact meet in the corpus.

  Args:
    counts: AND queries to counts, such as `Index.counts`.
    extract: sentences to triplets.
    levels: counts to rewards.
    rule: `first_valid` looks up the first triplet whose ends are no pronouns; `min`
      all of them, and the lowest count decides; `relcheck` adds the relation's first
      content word to the first, and a count of 0 then costs one level.
    no_query: reward of a sentence that gives nothing to look up.
  """

  def __init__(
    self,
    counts: Callable[[Sequence[Sequence[str]]], list[Count]],
    extract: triplets.Extractor,
    levels: Levels,
    *,
    rule: Rule = "first_valid",
    no_query: float = 0.0,
  ):
    self.counts, self.extract, self.levels = counts, extract, levels
    self.rule, self.no_query = rule, no_query

  def __call__(self, sentences: Sequence[str], examples: Sequence[Example] = ()) -> list[Verdict]:
    """All sentences of a batch: equal ones are read once, all queries go out at once."""
    del examples  # the corpus is asked the same whatever the question was
    distinct = list(dict.fromkeys(sentences))
    facts = [self._facts(found) for found in self.extract(distinct)]
    queries = [q for fact in facts for _, pair, checked in fact for q in (pair, checked) if q]
    queries = list(dict.fromkeys(queries))
    counts = dict(zip(queries, self.counts(queries), strict=True))
    verdicts = {s: self._verdict(fact, counts) for s, fact in zip(distinct, facts, strict=True)}
    return [verdicts[sentence] for sentence in sentences]

  def _facts(
    self, found: Sequence[Triplet]
  ) -> list[tuple[Triplet, tuple[str, ...], tuple[str, ...] | None]]:
    """What to look up: a triplet, its ends' words, and those with the relation's word."""
    valid = [t for t in found if triplets.is_valid(t)]
    facts = []
    for triplet in valid if self.rule == "min" else valid[:1]:
      pair = triplets.query(triplet)
      if pair:
        word = triplets.relation_word(triplet, pair) if self.rule == "relcheck" else None
        facts.append((triplet, pair, (*pair, word) if word else None))
    return facts

  def _verdict(self, facts, counts: dict[tuple[str, ...], Count]) -> Verdict:
    if not facts:
      return Verdict(self.no_query)
    triplet, pair, checked = min(facts, key=lambda fact: counts[fact[1]].occurrences)
    found = counts[pair]
    level = self.levels.level(found.occurrences)
    if checked and counts[checked].occurrences == 0:
      level = max(level - 1, 0)
    return Verdict(self.levels.rewards[level], triplet, pair, found.occurrences, found.approximate)


class CheckerVerifier:
  """+1 where a checker finds a sentence supported by its question's passages, else -1.

  A sentence that it cannot score, or whose question has no passages, gets 0: no verdict.

  Args:
    score: documents and sentences to P(supported), NaN where there is none
      (`checkers.Checker.score`).
    threshold: supported iff P is above it.
  """

  def __init__(self, score: Callable[[Sequence[str], Sequence[str]], np.ndarray], threshold: float):
    self.score, self.threshold = score, threshold

  def __call__(self, sentences: Sequence[str], examples: Sequence[Example]) -> list[Verdict]:
    pairs = zip(sentences, examples, strict=True)
    asked = [(document(e.passages), s) for s, e in pairs if e.passages]
    probabilities = iter(self.score(*map(list, zip(*asked, strict=True))) if asked else ())
    verdicts = []
    for example in examples:
      p = next(probabilities) if example.passages else np.nan
      verdicts.append(Verdict(0.0 if np.isnan(p) else 1.0 if p > self.threshold else -1.0))
    return verdicts


def generates(config: config_dict.ConfigDict) -> bool:
  """Whether the section `corver` has a language model write the triplets."""
  return config.verifier == "corpus" and config.extractor != "rules"


def from_config(
  config: config_dict.ConfigDict, generate: Callable[[list[str]], list[str]] | None = None
) -> CorpusVerifier:
  """The verifier that the config's section `corver` describes.

  Args:
    config: that section; a file as its `index` is indexed now, which takes a second a
      million words.
    generate: prompts to completions of the model `config.extractor`; not needed for rules.

  Raises:
    UserError: naming the field that is missing or wrong.
  """
  if config.index is None:
    raise UserError(
      "config.corver.index is not set; build one with asc_jax.tools.corver_index and name its folder"
    )
  if pathlib.Path(config.index).is_file():
    with tempfile.TemporaryDirectory() as folder:  # what is mapped outlives its names
      build.build([config.index], folder)
      return from_config(_with_index(config, folder), generate)
  opened = open_index(
    config.index,
    tokenizer=config.tokenizer,
    token_dtype=config.token_dtype,
    version=config.version,
    fold_case=config.fold_case,
    window=config.window,
    max_clause_freq=config.max_clause_freq,
    threads=config.threads,
    cache_size=config.cache_size,
  )
  return CorpusVerifier(
    opened.counts,
    _extractor(config, generate),
    parse_levels(config.levels),
    rule=config.rule,
    no_query=config.no_query,
  )


def _with_index(config: config_dict.ConfigDict, folder: str) -> config_dict.ConfigDict:
  changed = config.copy_and_resolve_references()  # else both hold one placeholder
  changed.index = folder
  return changed


def _extractor(config, generate) -> triplets.Extractor:
  if config.extractor == "rules":
    return triplets.by_rules
  if generate is None:
    raise ValueError("a model as extractor needs `generate`")
  return triplets.generated(generate, instruction(config))


def instruction(config: config_dict.ConfigDict) -> str:
  """The extractor's prompt: the packaged one, or the file `config.extractor_prompt`.

  Raises:
    UserError: the file cannot be read or has no place for the sentence.
  """
  if config.extractor_prompt is None:
    return triplets.INSTRUCTION
  named = f"config.corver.extractor_prompt={config.extractor_prompt}"
  try:
    text = pathlib.Path(config.extractor_prompt).read_text(encoding="utf-8")
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(f"{named} cannot be read ({error}); name a text file") from None
  if "{}" not in text:
    raise UserError(f"{named} has no {{}} where the sentence goes")
  return text
