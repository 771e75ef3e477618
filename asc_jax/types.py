"""The records that travel between the layers; every shape is stated here once.

Letters: B questions, G answers a question, P prompt tokens, T answer tokens,
S sentences an answer, V vocabulary, D width, N query heads, K key/value
heads, H head width, L layers.

Array records are NamedTuples, hence JAX pytrees, and this module needs no jax:
text/ and data/ import it on machines that have none.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeAlias

Array: TypeAlias = Any  # a jax.Array on the device, a np.ndarray on the host


class UserError(Exception):
  """Bad input from the person at the keyboard: one line, exit status 2.

  The message names the thing that is wrong and the remedy. `cli.run` prints it
  without a traceback; everything else is a bug and keeps its traceback.
  """


class Passage(NamedTuple):
  """One retrieved passage. `title` may be empty, `text` never is."""

  title: str
  text: str


@dataclasses.dataclass(frozen=True)
class Example:
  """One question of a corpus.

  Attributes:
    id: unique within the corpus.
    corpus: the reader's name, e.g. "ragtruth".
    question: plain text; decides the split (data/splits.py).
    passages: the documents the answer must be supported by.
    answers: reference long answers (supervised warm-up), possibly none.
    qa_pairs: ASQA's short answers, one tuple of aliases a sub-question.
    aliases: short gold answers of factoid corpora.
    answerable: the corpus's own label, None where it has none.
    split_key: decides the split instead, where many examples share one question
      (RAGTruth's summaries).
    extra: further columns that an analysis goes by (PopQA's popularity), as pairs
      of a name and a value.
  """

  id: str
  corpus: str
  question: str
  passages: tuple[Passage, ...] = ()
  answers: tuple[str, ...] = ()
  qa_pairs: tuple[tuple[str, ...], ...] = ()
  aliases: tuple[str, ...] = ()
  answerable: bool | None = None
  split_key: str = ""
  extra: tuple[tuple[str, Any], ...] = ()


class Prompts(NamedTuple):
  """Tokenised prompts, right-padded to a bucket."""

  tokens: Array  # int32[B, P]
  lengths: Array  # int32[B], real tokens; masks come from here, never from ids
  keys: Array  # uint32[B]: a hash of the question's id, folded into the seed


class Rollout(NamedTuple):
  """Sampled answers, padded with zeros after their end."""

  tokens: Array  # int32[B, G, T], the end-of-answer token included
  lengths: Array  # int32[B, G], tokens up to and with the end-of-answer token
  logps: Array  # float32[B, G, T], untruncated, at the sampling temperature
  finished: Array  # bool[B, G], False where T cut the answer off


class Sentences(NamedTuple):
  """Where the sentences of a batch of answers lie, and what text rules say.

  S is the batch's largest count, bucketed; nothing is ever dropped.
  """

  ids: Array  # int32[B, G, T], -1 on tokens of no sentence
  mask: Array  # bool[B, G, S], real sentences, pseudo-sentences included
  pseudo: Array  # bool[B, G, S], the one sentence of an answer that has none
  complete: Array  # bool[B, G, S], False for a last sentence that T cut off
  copied: Array  # bool[B, G, S]
  copy_share: Array  # float32[B, G], share of words in five-word matches


class Scores(NamedTuple):
  """The checker's P(supported) for each sentence, NaN where not scored."""

  supported: Array  # float32[B, G, S], by the passages
  vacuous: Array  # float32[B, G, S], by the question alone


class Batch(NamedTuple):
  """Everything one update reads."""

  prompts: Prompts
  rollout: Rollout
  token_mask: Array  # bool[B, G, T], tokens that carry loss
  sentences: Sentences
  scores: Scores
  old_logps: Array | None  # float32[B, G, T]; None: one update a batch
  ref_logps: Array | None  # float32[B, G, T]; None: beta is 0


class Weighted(NamedTuple):
  """A metric as a sum and its weight, so that parts add up exactly."""

  total: Any
  weight: Any


class Sample(NamedTuple):
  """A metric whose distribution is shown: `values` where `mask` is true."""

  values: Any
  mask: Any
