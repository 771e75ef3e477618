"""AlignScore, and any RoBERTa or BERT classifier of (chunk, sentence) pairs.

The document is cut into about 350-word chunks; a sentence's score is its best
chunk's probability of the supported class, and a claim of several sentences has
their mean. Only the chunk is cut to fit the window, never the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from asc_jax.checkers import base, batching, chunking, placement
from asc_jax.models import bert, checkpoints, classifier, torch_file, weights
from asc_jax.text import prompts
from asc_jax.text import sentences as text_sentences
from asc_jax.types import UserError

CHUNK_WORDS = 350
_SUPPORTED = frozenset(("entailment", "entail", "entails", "entailed", "supported", "support"))
_SUPPORTED |= {"supports", "aligned", "consistent", "faithful"}


class PairClassifier(base.Checker):
  """See the module's docstring.

  Args:
    name: the instrument's.
    model: gives logits [B, classes].
    tokenizer: the model's, for pairs.
    supported: index of the class that means supported.
    weights_hash: of the checkpoint.
    tokens_per_batch: what one call of the model reads.
    mesh: where it computes; None: the first device.
  """

  def __init__(
    self,
    name: str,
    model: classifier.Classifier,
    tokenizer,
    supported: int,
    weights_hash: str,
    tokens_per_batch: int,
    mesh: jax.sharding.Mesh | None = None,
  ):
    self.name = name
    self.tokenizer = tokenizer
    self.weights_hash = weights_hash
    self.tokens_per_batch = tokens_per_batch
    self._sizes = model.encoder.config
    self.window = self._sizes.window
    self._buckets = [b for b in (64, 128, 256) if b < self.window] + [self.window]
    self._mesh = mesh
    graph, state = nnx.split(model)
    self._state = placement.replicated(state, mesh)

    @jax.jit
    def run(state, tokens, lengths):
      with jax.default_matmul_precision("float32"):
        logits = nnx.merge(graph, state)(tokens, lengths)  # [B, classes]
      return jax.nn.softmax(logits)[:, supported]

    self._run = run

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float | None]:
    parts = {s: self._parts(s) for s in dict.fromkeys(sentences)}
    pairs = list(
      dict.fromkeys(
        (doc, part) for doc, s in zip(documents, sentences, strict=True) for part in parts[s]
      )
    )
    best = dict(zip(pairs, self._best_chunks(pairs), strict=True))
    scores: list[float | None] = []
    for doc, sentence in zip(documents, sentences, strict=True):
      values = [best[doc, part] for part in parts[sentence]]
      known = [v for v in values if v is not None]
      scores.append(float(np.mean(known)) if len(known) == len(values) else None)
    return scores

  def _parts(self, claim: str) -> list[str]:
    return [claim[a:b] for a, b in text_sentences.split(claim)]

  def _best_chunks(self, pairs: list[tuple[str, str]]) -> list[float | None]:
    def ids(texts):
      plain = [prompts.as_text(self.tokenizer, text) for text in texts]
      return self.tokenizer(plain, add_special_tokens=False).input_ids

    chunks = {doc: ids(chunking.sentence_chunks(doc, CHUNK_WORDS)) for doc in dict(pairs)}
    parts = list(dict.fromkeys(part for _, part in pairs))
    part_ids = dict(zip(parts, ids(parts), strict=True))
    sequences, owners = [], []
    for i, (doc, part) in enumerate(pairs):
      for chunk in chunks[doc]:
        joined = pair_ids(self.tokenizer, chunk, part_ids[part], self._sizes)
        if joined is not None:
          sequences.append(joined)
          owners.append(i)
    results = batching.bucketed(
      sequences,
      lambda *batch: self._run(self._state, *placement.rows(self._mesh, *batch)),
      buckets=self._buckets,
      tokens_per_batch=self.tokens_per_batch,
    )
    return base.best(len(pairs), owners, results)


def pair_ids(
  tokenizer, chunk: Sequence[int], sentence: Sequence[int], sizes: bert.BertConfig
) -> list[int] | None:
  """<s> chunk </s></s> sentence </s>, or BERT's [CLS] chunk [SEP] sentence [SEP].

  The chunk is cut to what the window leaves, None where that is nothing. BERT's second
  text has shifted ids, see classifier.Classifier.
  """
  room = sizes.window - 2 - sizes.separators - len(sentence)
  if room <= 0:
    return None
  first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
  shift = sizes.vocab_size if sizes.separators == 1 else 0
  second = [i + shift for i in (*sentence, last)]
  return [first, *chunk[:room], *[last] * sizes.separators, *second]


def supported_class(id2label: Mapping[Any, str], label: str | None, where: str) -> int:
  """The index of the class that means supported.

  Args:
    id2label: of a checkpoint's config.json.
    label: a class's name or index, or None to find it by its name.
    where: the checkpoint, for the error.

  Raises:
    UserError: unless exactly one class is meant.

  >>> supported_class({0: "contradiction", 1: "ENTAILMENT"}, None, "here")
  1
  """
  if not isinstance(id2label, Mapping) or not all(str(i).isdigit() for i in id2label):
    raise UserError(f"config.json of {where}: id2label maps no numbers to names")
  names = {int(i): str(name) for i, name in id2label.items()}
  wanted = _SUPPORTED if label is None else {label.lower()}
  found = [i for i, name in names.items() if name.lower() in wanted]
  if label is not None and label.isdigit() and int(label) in names:
    found = [int(label)]
  if len(found) != 1:
    listed = ", ".join(f"{i}: {name}" for i, name in sorted(names.items()))
    raise UserError(
      f"which class of {where} means supported? Its labels are {listed}; set "
      "config.checker.label to the name or index of one"
    )
  return found[0]


def load_nli(
  path: str | None = None,
  *,
  label: str | None = None,
  mesh: jax.sharding.Mesh | None = None,
  tokens_per_batch: int = 4096,
) -> PairClassifier:
  """Reads a folder of RobertaForSequenceClassification or BertForSequenceClassification.

  Args:
    path: the folder.
    label: see `supported_class`.
    mesh: where it computes; None: the first device.
    tokens_per_batch: what one call of the model reads.
  """
  folder, raw = base.checkpoint_folder("nli", path)
  kinds = {
    "roberta": (classifier.roberta_config, classifier.ROBERTA),
    "bert": (bert.BertConfig.from_dict, classifier.BERT),
  }
  if raw.get("model_type") not in kinds:
    raise UserError(
      f"checker nli reads RoBERTa and BERT; {folder} is a {raw.get('model_type')} model"
    )
  read_sizes, names = kinds[raw["model_type"]]
  sizes, labels = read_sizes(raw), raw.get("id2label", {})
  index = supported_class(labels, label, str(folder))
  tokenizer = checkpoints.load_tokenizer(folder)
  if len(tokenizer) > sizes.vocab_size:
    raise UserError(
      f"{folder}: the tokenizer has {len(tokenizer)} tokens and the model {sizes.vocab_size}; "
      "take the tokenizer of that model"
    )
  model = classifier.from_weights(sizes, weights.read(folder), names)
  classes = model.out.kernel.shape[-1]
  if not 1 < classes == len(labels):
    raise UserError(
      f"{folder}: a head of {classes} classes and {len(labels)} names in id2label; checker nli "
      "takes two classes or more, each with its name"
    )
  digest = base.file_hash(*weights.files(folder)) + f"-{index}"
  return PairClassifier("nli", model, tokenizer, index, digest, tokens_per_batch, mesh)


def load(
  path: str | None = None, *, mesh: jax.sharding.Mesh | None = None, tokens_per_batch: int = 4096
) -> PairClassifier:
  """Reads AlignScore as it is published, beside RoBERTa's own files.

  Args:
    path: a folder with one .ckpt of AlignScore and the config.json and tokenizer of
      the RoBERTa it was trained from.
    mesh: where it computes; None: the first device.
    tokens_per_batch: what one call of the model reads.
  """
  folder, raw = base.checkpoint_folder("alignscore", path)
  found = sorted(folder.glob("*.ckpt"))
  if len(found) != 1:
    raise UserError(f"checker alignscore: {folder} holds {len(found)} .ckpt files instead of one")
  tokenizer = checkpoints.load_tokenizer(folder)
  tensors = torch_file.state_dict(found[0])
  model = classifier.from_weights(
    classifier.roberta_config(raw),
    {name.removeprefix("base_model."): value for name, value in tensors.items()},
    classifier.ALIGNSCORE,
  )
  aligned = 0  # of the three-way head: aligned, contradicted, neutral
  digest = base.file_hash(found[0])
  return PairClassifier("alignscore", model, tokenizer, aligned, digest, tokens_per_batch, mesh)
