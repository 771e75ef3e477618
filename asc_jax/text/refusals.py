"""Rules for sentences that decline to answer.

A sentence is a refusal iff its main point is that the answer, or part of it, is
missing: the passages do not say it, or the writer cannot or will not tell. What
nobody knows ("The cause is unknown.") is an answer, and so is a sentence that makes
a claim before it says what is missing. Hence the first clause decides, an opening
"while ..." or "although ..." left aside; the rest decides only where the first
clause just says what the passages are about.

English only. Precision and recall on public answers: docs/text.md.
"""

from __future__ import annotations

import re

from asc_jax.text import sentences

_SOURCE = r"\b(?:passages?|contexts?|documents?|sources?|texts?|articles?|search results)\b"
_NOT = r"(?:\s?n['’]t| not)"
_SAY = r"(?:mention|provid|contain|specif|includ|discuss|address|stat|giv|say|explain|describ|answer|indicat|defin|cover|tell)\w*"
_FACT = r"(?:information|mention|details?|data|instructions?|indications?|explanations?|context|clarification)\b"
_TELL = r"(?:answer|provide|give|offer|tell|say|determine|find|confirm|conclude|infer|respond|help)"

_MISSING = [
  # The passages do not explicitly mention it. It does not provide any information.
  rf"{_SOURCE}(?: \[?\d+\]?)? (?:do|does|did){_NOT} (?:\w+ly )?{_SAY}",
  rf"\b(?:it|they|but) (?:do|does|did){_NOT} (?:\w+ly )?(?:mention|specify|address|state|answer|say)\b",
  rf"\b(?:do|does|did){_NOT} (?:provide|contain|give|include|offer) (?:\w+ ){{0,3}}{_FACT}",
  rf"\b(?:no|none of the|neither) (?:\w+ )?{_SOURCE} {_SAY}",
  rf"{_SOURCE} (?:provides?|contains?|gives?|offers?|ha(?:s|ve)) no\b",
  # It is not specified. The price is not directly provided. It is not in the passages.
  rf"\b(?:is|are|was|were){_NOT} (?:\w+ly )?(?:mentioned|specified|stated|provided|addressed)\b",
  rf"\b(?:is|are){_NOT} in (?:the|these|any) (?:\w+ ){{0,2}}{_SOURCE}",
  # There is no direct information. There is not enough information. No answer is given.
  rf"\bthere (?:is|are|was|were) (?:no|not) (?:\w+ ){{0,2}}{_FACT}",
  rf"^\W*no (?:\w+ ){{0,2}}(?:{_FACT}|answer)(?: (?:is|was|can be|about|on|to)\b|\W*$)",
  # Unable to answer. It is not possible to say. I cannot tell. It cannot be determined.
  rf"(?:^|\bam|\bare|['’]m|['’]re|\bit is|: )\W*(?:unable|not able|not possible|impossible) to (?:\w+ly )?{_TELL}\b",
  rf"\b(?:I|we) (?:cannot|can['’]t|(?:can|could){_NOT}) (?:\w+ly )?{_TELL}\b",
  rf"\b(?:I|we) (?:do{_NOT} have|have no) (?:\w+ ){{0,2}}(?:information|answer|opinions?)\b|\bI do{_NOT} know\W*$",
  rf"\b(?:cannot|can['’]t|(?:can|could){_NOT}) be (?:\w+ly )?(?:determined|answered|inferred|provided)\b",
  # From the given context it is unclear.
  rf"\b(?:unclear|not clear|unknown)\b.*{_SOURCE}|{_SOURCE}.*\b(?:unclear|not clear|unknown)\b",
  r"^\W*I(?: am|['’]m) not sure\W*$|\bas an AI\b|^\W*(?:not answerable|unanswerable)\W*$",
]
_REFUSAL = re.compile("|".join(_MISSING), re.IGNORECASE)
_CONCESSION = re.compile(
  r"^\W*(?:\w+,\ )? (?: (?:while|although|though)\b .*? ,\ (?=\w+\ \w+)"
  r" | (?:I['’]m\ |I\ am\ )? (?:sorry|afraid) ,?\ but\b )",
  re.IGNORECASE | re.VERBOSE,
)
_TURN = re.compile(r"[,;] (?:but|however|so|and|though|although)\b|; | but ", re.IGNORECASE)
_ABOUT_SOURCES = re.compile(
  rf"^\W*(?:\w+, )?(?:(?:the|this|these|given|provided|note that) )*{_SOURCE}(?: \d+)?"
  r" (?:only |also |primarily |mainly )?(?:provide|focus|mention|discuss|describe|list|talk)",
  re.IGNORECASE,
)
_SILENT = re.compile(rf"\b(?:do|does|did){_NOT} (?:\w+ly )?{_SAY}", re.IGNORECASE)


def is_refusal(sentence: str) -> bool:
  """Whether a sentence declines to answer.

  Examples:
    >>> is_refusal("The passages do not say when the lift opened.")
    True
    >>> is_refusal("The lift opened in May, but the year is not mentioned.")
    False
  """
  main = _CONCESSION.sub("", sentence, count=1)
  first, *rest = _TURN.split(main, maxsplit=1)
  if _REFUSAL.search(first):
    return True
  return bool(rest and _ABOUT_SOURCES.search(first) and _SILENT.search(rest[0]))


def declines(answer: str) -> bool:
  """Whether an answer has sentences and every one of them declines."""
  spans = sentences.split(answer)
  return bool(spans) and all(is_refusal(answer[start:end]) for start, end in spans)
