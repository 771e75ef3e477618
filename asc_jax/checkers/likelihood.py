"""The embedded checker with a language model: how much likelier a document makes a sentence.

A frozen SmolLM2-135M reads the sentence after the document and by itself. What each
token gains in log-probability, and how likely it is given the document, goes beside the
features of `minilm` into one fitted head.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from asc_jax.checkers import base, chunking, encoder, lexical, minilm, pair_features
from asc_jax.checkers.shared_document import DocumentReader
from asc_jax.models import checkpoints, decoder
from asc_jax.text import prompts
from asc_jax.types import UserError

LIKELIHOOD_NAMES = (
  "gain_mean",  # of log p(token | document) - log p(token)
  "gain_min",
  "gain_low",  # mean of the lowest quarter
  "gain_share",  # sum of gains over the sum of -log p(token)
  "given_mean",  # of log p(token | document)
  "given_min",
  "given_low",
  "alone_mean",  # of log p(token)
  "surprise_mean",  # of -log p(token | document) less the entropy there
  "surprise_max",
  "lead_mean",  # of the likeliest token's log-probability less the sentence's token's
  "lead_max",
  "fact_gain",  # mean gain of tokens of numbers and names; of all where there are none
  "fact_gain_min",
  "fact_given_min",
)
NAMES = (*pair_features.NAMES, *LIKELIHOOD_NAMES)
_WHOLE = 480  # words of a document that is read whole
_PART = 240  # words, about, of the part of a longer one that is read


class Likelihood(DocumentReader):
  """Log-probabilities of a sentence's tokens after a document."""

  name = "likelihood"

  def encode(self, document: str, sentence: str) -> list[int]:
    # Begins alike whatever follows: line breaks may merge with what stands after them.
    return prompts.encode_plain(self.tokenizer, f"Text: {document}\n\n{sentence.strip()}")

  def read_out(self, state, hidden, tokens, lengths):
    """[G, T, 3] of each next token: log p, the entropy there, the likeliest one's lead.

    NaN after the last.
    """
    log_p = jax.nn.log_softmax(decoder.logits(state, hidden))  # [G, T, V]
    following = jnp.roll(tokens, -1, axis=1)
    chosen = jnp.take_along_axis(log_p, following[..., None], axis=-1)[..., 0]
    entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
    found = jnp.stack([chosen, entropy, log_p.max(axis=-1) - chosen], axis=-1)
    there = jnp.arange(tokens.shape[1])[None] < lengths[:, None] - 1
    return jnp.where(there[..., None], found, jnp.nan)

  def features(self, documents: Sequence[str], sentences: Sequence[str]) -> np.ndarray:
    """float32[N, len(LIKELIHOOD_NAMES)] of non-blank pairs; NaN where a sentence does not fit."""
    parts = [best_part(*pair) for pair in zip(documents, sentences, strict=True)]
    distinct = list(dict.fromkeys(sentences))
    alone = dict(zip(distinct, self.read([""] * len(distinct), distinct), strict=True))
    rows = np.full((len(sentences), len(LIKELIHOOD_NAMES)), np.nan, np.float32)
    for i, given in enumerate(self.read(parts, sentences)):
      other = alone[sentences[i]]
      if given is not None and other is not None:
        rows[i] = summary(given, other, self._facts(sentences[i]))
    return rows

  def _facts(self, sentence: str) -> np.ndarray:
    """bool[n], for each token of a sentence: of a number, or of a name after the first."""
    ids = self.tokenizer(sentence.strip(), add_special_tokens=False)["input_ids"]
    texts = [text.strip() for text in self.tokenizer.batch_decode([[i] for i in ids])]
    return np.array(
      [text[:1].isdigit() or (text[:1].isupper() and i > 0) for i, text in enumerate(texts)]
    )


def summary(given: np.ndarray, alone: np.ndarray, facts: np.ndarray) -> np.ndarray:
  """The features of one pair.

  Args:
    given: [m, 3] of `Likelihood.read_out`, NaN after the last token.
    alone: the same without a document.
    facts: bool[n], which of the last n tokens are of numbers and names.

  Returns:
    float32[len(LIKELIHOOD_NAMES)].
  """
  given, alone = (x[~np.isnan(x[:, 0])] for x in (given, alone))
  # Where tokens merge with the document's, one side begins a little earlier.
  n = min(len(given), len(alone), len(facts))
  given, alone, facts = given[-n:], alone[-n:, 0], facts[-n:]
  facts = facts if facts.any() else np.ones(n, bool)
  log_p, entropy, lead = given.T
  gain, surprise = log_p - alone, -log_p - entropy
  low = slice(-(-n // 4))
  return np.array(
    [
      gain.mean(),
      gain.min(),
      np.sort(gain)[low].mean(),
      gain.sum() / max(-alone.sum(), 1.0),
      log_p.mean(),
      log_p.min(),
      np.sort(log_p)[low].mean(),
      alone.mean(),
      surprise.mean(),
      surprise.max(),
      lead.mean(),
      lead.max(),
      gain[facts].mean(),
      gain[facts].min(),
      log_p[facts].min(),
    ],
    np.float32,
  )


def best_part(document: str, sentence: str) -> str:
  """A document that is short, or the part of a longer one with most of the sentence's words.

  >>> long = "Bees dance at noon. " * 100 + "Ants built a bridge. " * 100
  >>> best_part(long, "A bridge of ants.").split()[-1]
  'bridge.'
  """
  if len(document.split()) <= _WHOLE:
    return document
  parts = chunking.word_chunks(document, _PART)
  wanted = lexical.content_words(sentence)
  known = [set(lexical.words(part)) for part in parts]
  return parts[int(np.argmax([sum(word in k for word in wanted) for k in known]))]


class MiniLMLikelihood(base.Checker):
  """See the module's docstring."""

  name = "likelihood"

  def __init__(
    self, embed: encoder.Encoder, reader: Likelihood, head: minilm.Head, weights_hash: str
  ):
    self.embed = embed
    self.reader = reader
    self.head = head
    self.weights_hash = weights_hash

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float | None]:
    rows = np.hstack(
      [
        minilm.features(self.embed, documents, sentences),
        self.reader.features(documents, sentences),
      ]
    )
    scores = self.head(rows).tolist()
    return [None if np.isnan(row).any() else s for s, row in zip(scores, rows, strict=True)]


def read_model(
  path: str | None = None, *, mesh: jax.sharding.Mesh | None = None, tokens_per_batch: int = 64
) -> Likelihood:
  """The language model: `path`, or the packaged SmolLM2."""
  state, tokenizer = checkpoints.load(path or checkpoints.SMOLLM2, mesh=mesh)
  return Likelihood(state, tokenizer, window=8192, tokens_per_batch=tokens_per_batch)


def load(
  path: str | None = None,
  *,
  head: str = "a",
  mesh: jax.sharding.Mesh | None = None,
  tokens_per_batch: int = 64,
) -> MiniLMLikelihood:
  """Loads the packaged MiniLM, SmolLM2 and a head that was fitted on both.

  Args:
    path: None, since the head belongs to the packaged models.
    head: "a", the reward's, or "b", its held-out twin.
    mesh: where SmolLM2 goes.
    tokens_per_batch: sentence tokens that one call of it extends.
  """
  if path is not None:
    raise UserError(f"checker likelihood has no checkpoint; drop config.checker.path={path}")
  text = minilm.head_text(head, "likelihood")
  folder = encoder.find_weights(None)
  reader = read_model(mesh=mesh, tokens_per_batch=tokens_per_batch)
  digest = base.file_hash(folder / "model.safetensors") + base.path_hash(checkpoints.SMOLLM2) + text
  return MiniLMLikelihood(
    encoder.Encoder(folder),
    reader,
    minilm.Head.from_json(text, NAMES),
    hashlib.sha256(digest.encode()).hexdigest()[:16],
  )


def load_twin(
  path: str | None = None, *, mesh: jax.sharding.Mesh | None = None, tokens_per_batch: int = 64
) -> MiniLMLikelihood:
  """The held-out twin, under a name of its own."""
  twin = load(path, head="b", mesh=mesh, tokens_per_batch=tokens_per_batch)
  twin.name = "likelihood_b"
  return twin
