"""Sentences to (head, relation, tail) triplets, and triplets to the words to look up.

Two extractors give the same records: a language model that writes triplets as JSON
(the paper's), and rules over capitals and function words that need no weights.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Triplet(NamedTuple):
  """One statement; any part may be empty."""

  head: str
  relation: str
  tail: str


# Sentences to triplets, one list a sentence.
Extractor = Callable[[Sequence[str]], list[list[Triplet]]]


def _words(text: str) -> frozenset[str]:
  return frozenset(text.split())


PRONOUNS = _words(
  """i me my mine myself you your yours yourself he him his himself she her hers herself it its
  itself we us our ours ourselves they them their theirs themselves this that these those who whom
  whose which what there here one someone something somebody anyone anything everyone everything
  nobody nothing none both another other others"""
)
STOP_WORDS = PRONOUNS | _words(
  """a an the and or but nor so yet if then than because although though while when where why how
  as of in on at by for with without from to into onto over under between among about against after
  before during since until through across near within along upon off out up down is am are was were
  be been being has have had having do does did done can could will would shall should may might
  must not no yes also very more most much many some any each every all such only just still too
  however therefore thus hence"""
)

INSTRUCTION = """\
List the facts that the sentence states about named things, as a JSON list of
[head, relation, tail] lists, the main fact first. Write every name out in full. Where
the sentence states no such fact, write [].

Sentence: The Nile flows through Egypt and was explored by John Speke.
Triplets: [["Nile", "flows through", "Egypt"], ["Nile", "explored by", "John Speke"]]

Sentence: So the second one is older.
Triplets: []
"""


def extractor_prompt(sentence: str, instruction: str = INSTRUCTION) -> str:
  """The request for one sentence; everything before the sentence is shared.

  Args:
    sentence: the sentence to read.
    instruction: a text with `{}` for the sentence, as fine-tuned extractors publish
      theirs, or one that the sentence follows.
  """
  if "{}" in instruction:
    return instruction.replace("{}", sentence)
  return f"{instruction}\nSentence: {sentence}\nTriplets:"


def generated(
  generate: Callable[[list[str]], list[str]], instruction: str = INSTRUCTION
) -> Extractor:
  """The extractor that asks a language model, once a distinct sentence.

  Args:
    generate: prompts to completions.
    instruction: see `extractor_prompt`.
  """

  def extract(sentences: Sequence[str]) -> list[list[Triplet]]:
    distinct = list(dict.fromkeys(sentences))
    outputs = generate([extractor_prompt(sentence, instruction) for sentence in distinct])
    found = dict(zip(distinct, map(parse, outputs), strict=True))
    return [found[sentence] for sentence in sentences]

  return extract


def by_rules(sentences: Sequence[str]) -> list[list[Triplet]]:
  """The extractor that needs no weights; see `rule_triplets`."""
  return [rule_triplets(sentence) for sentence in sentences]


# A list, or an object, that holds no other; one item of a list: quoted or bare.
_LIST = re.compile(r'\[((?:"(?:[^"\\]|\\.)*"|“[^”]*”|[^\[\]"“])*)\]')
_OBJECT = re.compile(r'\{(?:"(?:[^"\\]|\\.)*"|[^{}"])*\}')
_ITEM = re.compile(
  r"""\s*(?:("(?:[^"\\]|\\.)*")|“([^”]*)”|'(.*?)'(?=\s*(?:,|$))|([^,]+))\s*(?:,|$)"""
)
_KEYS = (("head", "subject"), ("relation", "predicate"), ("tail", "object"))


def parse(output: str) -> list[Triplet]:
  """Triplets from what a language model wrote, whatever it put around them.

  Reads JSON lists of lists or objects, curly and single quotes, bare words, and the
  whole triplets of an output that ends in the middle of one. What is no triplet
  (a question's [head, relation], prose) is left out.

  Examples:
    >>> parse('Triplets: [["Nile", "in", "Egypt"], ["Nile", "expl')
    [Triplet(head='Nile', relation='in', tail='Egypt')]
    >>> parse('[[Rajiv Rai, born in, Mumbai, India]]')
    [Triplet(head='Rajiv Rai', relation='born in', tail='Mumbai, India')]
  """
  rows = [_from_object(text) for text in _OBJECT.findall(output)]
  if not rows:
    rows = [[_unquote(m) for m in _ITEM.finditer(text)] for text in _LIST.findall(output)]
  # A bare tail may hold commas of its own.
  return [Triplet(row[0], row[1], ", ".join(row[2:])) for row in rows if len(row) >= 3]


def _unquote(match: re.Match[str]) -> str:
  if match.group(1) is None:
    return next(group for group in match.groups() if group is not None).strip()
  try:
    return json.loads(match.group(1)).strip()
  except json.JSONDecodeError:  # an escape that JSON does not know
    return match.group(1)[1:-1].strip()


def _from_object(text: str) -> list[str]:
  try:
    row = json.loads(text)
  except json.JSONDecodeError:
    return []
  parts = [next((row[key] for key in keys if key in row), None) for keys in _KEYS]
  return [] if None in parts else [str(part).strip() for part in parts]


def to_json(triplets: Iterable[Triplet]) -> str:
  """The format that extractors write: a JSON list of [head, relation, tail]."""
  return json.dumps([list(t) for t in triplets], ensure_ascii=False)


# A word with its hyphens and inner dots, but without a possessive ending.
_TOKEN = re.compile(r"[^\W_]+(?:[-'’.&](?!s\b)[^\W_]+)*")
_INSIDE_NAMES = _words("of the de la le du des da di von van der den del al bin ibn")


class _Mention(NamedTuple):
  start: int
  end: int


def rule_triplets(sentence: str) -> list[Triplet]:
  """Triplets by capitals and function words: the first mention with each later one.

  A mention is a run of capitalised words or numbers, joined over words like `of`;
  where there is only one, also a run of other words that are not function words. A
  sentence that names nothing states no fact. The relation is the text between the two.

  Examples:
    >>> rule_triplets("Marie Curie was born in Warsaw.")
    [Triplet(head='Marie Curie', relation='was born in', tail='Warsaw')]
    >>> rule_triplets("Photosynthesis converts light energy into chemical energy.")[0]
    Triplet(head='Photosynthesis', relation='converts', tail='light energy')
  """
  tokens = list(_TOKEN.finditer(sentence))
  mentions = _names(sentence, tokens)
  if len(mentions) == 1:
    mentions = sorted(mentions + _phrases(sentence, tokens, mentions))
  head = sentence[mentions[0].start : mentions[0].end] if mentions else ""
  triplets = []
  for before, mention in itertools.pairwise(mentions):
    between = re.sub(r"^['’]s\b", "", sentence[before.end : mention.start])
    relation = between.strip(' ,;:.()"“”')
    tail = sentence[mention.start : mention.end]
    if tail.casefold() != head.casefold():
      triplets.append(Triplet(head, relation, tail))
  return triplets


def _is_name(token: re.Match[str]) -> bool:
  word = token.group()
  return (word[0].isupper() or word[0].isdigit()) and word.lower() not in STOP_WORDS


def _names(sentence: str, tokens: list[re.Match[str]]) -> list[_Mention]:
  """Runs of capitalised words and numbers with nothing but spaces between."""
  names: list[_Mention] = []
  joinable = False
  for i, token in enumerate(tokens):
    gap = sentence[tokens[i - 1].end() : token.start()] if i else ""
    initial = i > 0 and len(tokens[i - 1].group().split(".")[-1]) == 1
    joinable &= not gap.strip(" ") or (initial and gap == ". ")
    if _is_name(token):
      if joinable:
        names[-1] = _Mention(names[-1].start, token.end())
      else:
        names.append(_Mention(*token.span()))
      joinable = True
    else:
      joinable &= token.group() in _INSIDE_NAMES
  return names


def _phrases(sentence: str, tokens: list[re.Match[str]], names: list[_Mention]) -> list[_Mention]:
  """Runs of other content words; after a name or a pronoun, the first is the verb."""
  taken = {i for name in names for i in range(name.start, name.end)}
  runs: list[list[re.Match[str]]] = []
  open_run = False
  for i, token in enumerate(tokens):
    gap = sentence[tokens[i - 1].end() : token.start()] if i else ""
    word = token.group()
    if token.start() in taken or len(word) <= 2 or word.lower() in STOP_WORDS:
      open_run = False
      continue
    if open_run and not gap.strip(" "):
      runs[-1].append(token)
    else:
      runs.append([token])
    open_run = True
  ends = {name.end for name in names}
  ends |= {token.end() for token in tokens if token.group().lower() in PRONOUNS}
  trimmed = [run[1:] if run[0].start() - 1 in ends else run for run in runs]
  return [_Mention(run[0].start(), run[-1].end()) for run in trimmed if run]


def content_words(entity: str) -> list[str]:
  """The capitalised words that are no function words, else all longer than two letters.

  Examples:
    >>> content_words("the First Congress of the United States")
    ['First', 'Congress', 'United', 'States']
    >>> content_words("theory of general relativity")
    ['theory', 'general', 'relativity']
  """
  candidates = [
    word for word in (_clean(word) for word in entity.split()) if word.lower() not in STOP_WORDS
  ]
  capitalised = [word for word in candidates if word[:1].isupper()]
  return capitalised or [word for word in candidates if len(word) > 2]


def _clean(word: str) -> str:
  """Without the punctuation around a word and its possessive ending."""
  word = re.sub(r"^[\W_]+|[\W_]+$", "", word)
  return re.sub(r"['’]s$", "", word)


def query_words(*parts: str) -> tuple[str, ...]:
  """The content words of all parts, case-insensitively distinct, in order."""
  found: dict[str, str] = {}
  for word in itertools.chain.from_iterable(map(content_words, parts)):
    found.setdefault(word.casefold(), word)
  return tuple(found.values())


def is_valid(triplet: Triplet) -> bool:
  """Neither end is empty or a pronoun."""
  ends = (triplet.head.strip().lower(), triplet.tail.strip().lower())
  return all(end and end not in PRONOUNS for end in ends)


def query(triplet: Triplet) -> tuple[str, ...] | None:
  """The words to look up for a triplet; None where fewer than two are left."""
  found = query_words(triplet.head, triplet.tail)
  return found if len(found) >= 2 else None


def relation_word(triplet: Triplet, ends: Sequence[str]) -> str | None:
  """The relation's first content word that the ends do not hold already (RelCheck)."""
  known = {word.casefold() for word in ends}
  fresh = (word for word in content_words(triplet.relation) if word.casefold() not in known)
  return next(fresh, None)
