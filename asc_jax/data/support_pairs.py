"""Labelled (document, sentence) pairs from public sets, to fit and test checkers.

Each set marks by hand whether a text supports a claim; where it marks error spans in
an answer, every sentence of the answer becomes a pair, unsupported iff it overlaps a
span. The sets, and what counts as supported in each:

| set | document | sentence | supported |
|---|---|---|---|
| wice | evidence sentences of a claim | claim | supported (partially: no) |
| factcheck_gpt | search result | claim | completely-support |
| attributionbench | references | claim | attributable |
| begin | knowledge | response | fully attributable (generic ones left out) |
| summedits | document | whole summary | label 1 |
| qa_feedback | passages | sentence of prediction 1 | no Wrong-Grounding or Unverifiable span |
| ragtruth | passages | sentence of a good response | no span |
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from asc_jax.data import files, splits
from asc_jax.data.corpora import asqa, ragtruth
from asc_jax.data.documents import document
from asc_jax.text import refusals, sentences
from asc_jax.types import UserError


class SupportPair(NamedTuple):
  """A document, a sentence, and whether the first supports the second.

  Attributes:
    document: the text that may support the sentence.
    sentence: the claim.
    supported: the human label.
    group: what must stay in one part of a split: the claim, document or question.
    question: the question behind the pair, "" where there is none.
  """

  document: str
  sentence: str
  supported: bool
  group: str
  question: str = ""

  @property
  def split(self) -> str:
    """The part that owns the pair (see `data.splits`).

    A pair with a question goes where that question goes, "train" (policies only)
    included; one without never goes to "train".
    """
    return splits.split_of(self.question) if self.question else splits.checker_split_of(self.group)

  @property
  def key(self) -> str:
    """A hash of texts and label; some sets give one pair of texts both labels."""
    return files.stable_id(repr((self.document, self.sentence, self.supported)))


def choose(pairs: Sequence[SupportPair], count: int | None) -> list[SupportPair]:
  """`count` pairs, fewer where there are fewer, chosen by hash; None: all."""
  if count is None:
    return list(pairs)
  return sorted(pairs, key=lambda p: p.key)[:count]


def read(root: str | pathlib.Path) -> dict[str, list[SupportPair]]:
  """Reads every set that has a folder under `root`, by the set's name; blank texts are left out.

  Args:
    root: folder with `wice/`, `factcheck_gpt/`, `attributionbench/`, `begin/`,
      `summedits/`, `asqa/` and `ragtruth/`, or some of them.
  """
  root = pathlib.Path(root)
  folders = {name: root / _FOLDERS.get(name, name) for name in _READERS}
  present = {name: folder for name, folder in folders.items() if folder.is_dir()}
  if not present:
    raise UserError(
      f"{root} holds none of the folders {', '.join(sorted({f.name for f in folders.values()}))}; "
      "point config.data.path to the labelled sets"
    )
  return {
    name: [
      pair
      for pair in dict.fromkeys(_READERS[name](folder))
      if not (sentences.is_blank(pair.document) or sentences.is_blank(pair.sentence))
    ]
    for name, folder in present.items()
  }


def _wice(folder: pathlib.Path) -> Iterator[SupportPair]:
  # A claim's evidence is cut into chunks, a row each; the label is the claim's, so
  # the pair is the claim with its chunks' sentences put together again.
  evidence: dict[str, dict[int, str]] = {}
  claims: dict[str, tuple[str, bool]] = {}
  for file in files.find(folder, "*oracle_chunks_claim*.jsonl"):
    for row in files.rows(file):
      meta = files.Row(f"{row.where}, meta", row.take("meta", dict))
      id_ = meta.take("id", str)
      claims[id_] = row.take("claim", str), row.take("label", str) == "supported"
      places, chunks = meta.take("chunk_idx", list), row.strings("evidence")
      if len(places) != len(chunks):
        raise UserError(
          f"{row.where}: {len(chunks)} sentences of evidence, {len(places)} chunk_idx"
        )
      evidence.setdefault(id_, {}).update(zip(places, chunks, strict=True))
  for id_, (claim, supported) in claims.items():
    text = " ".join(evidence[id_][i] for i in sorted(evidence[id_]))
    yield SupportPair(text, claim, supported, claim)


def _factcheck_gpt(folder: pathlib.Path) -> Iterator[SupportPair]:
  for file in files.find(folder, "*.jsonl"):
    for row in files.rows(file):
      claim, evidence = row.take("claim", str), row.take("evidence", str)
      yield SupportPair(evidence, claim, row.take("stance", str) == "completely-support", claim)


def _attributionbench(folder: pathlib.Path) -> Iterator[SupportPair]:
  for file in files.find(folder, "*.jsonl"):
    for row in files.rows(file):
      text, claim = (
        "\n\n".join(map(_without_marks, row.strings("references"))),
        _without_marks(row.take("claim", str)),
      )
      question = row.take("question", str)
      supported = row.take("attribution_label", str) == "attributable"
      yield SupportPair(text, claim, supported, question or claim, question)


def _without_marks(text: str) -> str:
  """Drops citation marks, "[2]", which are no part of what is claimed."""
  return re.sub(r"\s*\[\d+\](?=[\s.,;:!?]|$)", "", text).strip()


def _begin(folder: pathlib.Path) -> Iterator[SupportPair]:
  for file in files.find(folder, "*.tsv"):
    for row in files.table(
      file, ("knowledge", "response", "begin_label"), delimiter="\t", quoted=False
    ):
      label = row.value["begin_label"]
      if label != "Generic":
        yield SupportPair(
          row.value["knowledge"],
          row.value["response"],
          label == "Fully attributable",
          row.value["knowledge"],
        )


def _summedits(folder: pathlib.Path) -> Iterator[SupportPair]:
  for file in files.find(folder, "*.json"):
    for row in files.rows(file):
      text = row.take("doc", str)
      yield SupportPair(text, row.take("summary", str), row.take("label", int) == 1, text)


def _qa_feedback(folder: pathlib.Path) -> Iterator[SupportPair]:
  for answer in asqa.feedback(folder):
    wrong = [(s.start, s.end) for s in answer.spans if s.kind in asqa.UNSUPPORTED]
    yield from _sentence_pairs(document(answer.passages), answer.answer, wrong, answer.question)


def _ragtruth(folder: pathlib.Path) -> Iterator[SupportPair]:
  for response in ragtruth.labelled(folder)[0]:
    if response.quality == "good" and response.task == "QA":
      wrong = [(s.start, s.end) for s in response.spans]
      yield from _sentence_pairs(
        document(response.passages), response.response, wrong, response.question
      )


def _sentence_pairs(
  text: str, answer: str, wrong: Iterable[tuple[int, int]], question: str
) -> Iterator[SupportPair]:
  wrong = list(wrong)
  for start, end in sentences.split(answer):
    sentence = answer[start:end]
    # "I cannot tell from the passages" is neither supported nor an error.
    if not refusals.is_refusal(sentence):
      touched = any(answer[max(start, s) : min(end, e)].strip() for s, e in wrong)
      yield SupportPair(text, sentence, not touched, question, question)


_FOLDERS = {"qa_feedback": "asqa"}
_READERS: dict[str, Callable[[pathlib.Path], Iterator[SupportPair]]] = {
  "wice": _wice,
  "factcheck_gpt": _factcheck_gpt,
  "attributionbench": _attributionbench,
  "begin": _begin,
  "summedits": _summedits,
  "qa_feedback": _qa_feedback,
  "ragtruth": _ragtruth,
}
