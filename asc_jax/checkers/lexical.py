"""The lexical instrument: the share of a sentence's content words in the document.

It reads no meaning, needs no weights, and is the baseline that every trained
instrument has to beat. Its word rules also serve the embedded checker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from asc_jax.checkers import base
from asc_jax.types import UserError

# Words of grammar: articles, pronouns, prepositions, conjunctions, auxiliaries.
_GRAMMAR = """
  a an the this that these those it its itself he him his himself she her hers herself they
  them their theirs themselves i me my mine we us our ours you your yours who whom whose which
  what there here and or but nor so yet if because as while although though whether than then
  when where how why of in on at by for with about against between into through during before
  after above below to from up down out off over under again further am is are was were be been
  being have has had having do does did doing will would shall should can could may might must
  not no also just only very too both each all any some such own same other more most s t"""
STOP_WORDS = frozenset(_GRAMMAR.split())

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|[^\W_]")


def spans(text: str) -> Iterator[re.Match[str]]:
  """The matches of `text` that are words, in order."""
  return _WORD.finditer(text)


def normalise(word: str) -> str:
  """Lower case, one kind of apostrophe; a number without its thousands commas."""
  word = word.lower().replace("’", "'")
  return word.replace(",", "") if word[0].isdigit() else word


def words(text: str) -> list[str]:
  """The normalised words of a text.

  >>> words("Ann's 1,200 cats, 3.5 dogs.")
  ["ann's", '1200', 'cats', '3.5', 'dogs']
  """
  return [normalise(m.group()) for m in spans(text)]


def content_words(text: str) -> list[str]:
  """`words` without those of grammar, or all of them where no other is left."""
  every = words(text)
  return [w for w in every if w not in STOP_WORDS] or every


class Lexical(base.Checker):
  """Share of content words found in the document, each occurrence counting."""

  name = "lexical"
  weights_hash = "rules-1"

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float]:
    scores = [0.0] * len(documents)
    for doc, places in base.group_by_document(documents).items():
      known = set(words(doc))
      for i in places:
        wanted = content_words(sentences[i])
        scores[i] = sum(w in known for w in wanted) / len(wanted)
    return scores


def load(path: str | None = None) -> Lexical:
  """Takes no checkpoint."""
  if path is not None:
    raise UserError(f"checker lexical has no checkpoint; drop config.checker.path={path}")
  return Lexical()
