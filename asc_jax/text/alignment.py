"""Which characters, and which sentence, each sampled token stands for.

A policy may sample any sequence of ids: characters split over tokens, bytes that
are no UTF-8, special tokens, sequences that encoding never makes. Offsets that a
tokenizer returns belong to its own encoding of a text, and some are wrong, so
they are not used: spans come from the bytes of each token. The pieces are held to
`tokenizer.decode` every time; where they disagree, prefixes are decoded instead.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

Span = tuple[int, int]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def decode(tokenizer, ids: Sequence[int]) -> tuple[str, list[Span]]:
  """The text of an answer and the characters of each of its tokens.

  The text is `tokenizer.decode(ids)` without special tokens and without cleaning
  up spaces. The spans tile it in order: a character that several tokens make up
  belongs to the last of them, and the others, like special tokens and ids outside
  the vocabulary, are zero-width at their place.

  Args:
    tokenizer: a transformers tokenizer.
    ids: any ids that are not negative.

  Returns:
    The text, and a span (start, end) of it for each id.
  """
  ids = [int(i) for i in ids]
  text = _text(tokenizer, ids)
  special = _special_ids(tokenizer)
  tokens = [
    "" if i in special or token is None else token
    for i, token in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
  ]
  for to_bytes in (_byte_level, _byte_fallback):
    pieces = to_bytes(tokens)
    if b"".join(pieces).decode("utf-8", "replace") == text:
      return text, _byte_spans(pieces)
  return text, _prefix_spans(tokenizer, ids, text)


def token_spans(tokenizer, ids: Sequence[int]) -> list[Span]:
  """The spans of `decode` alone."""
  return decode(tokenizer, ids)[1]


def sentence_ids(
  token_spans: Sequence[Span],
  sentence_spans: Sequence[Span],
  *,
  text: str | None = None,
  trailing: str = "sentence",
) -> np.ndarray:
  """The sentence of each token.

  A token that straddles belongs to the sentence that holds most of its non-space
  characters, ties to the earlier. A zero-width token inside a sentence belongs to
  that sentence. What is left is white space between sentences and the
  end-of-answer token.

  Args:
    token_spans: from `token_spans`.
    sentence_spans: from `sentences.split`.
    text: what both index; without it every character inside a sentence counts
      as non-space.
    trailing: "sentence" gives what is left to the sentence before it (to the
      first, at the beginning of the text), "none" to none.

  Returns:
    int32[T], -1 on tokens of no sentence.

  Examples:
    >>> sentence_ids([(0, 2), (2, 4), (4, 7), (7, 7)], [(0, 3), (4, 7)])
    array([0, 0, 1, 1], dtype=int32)
    >>> sentence_ids([(0, 2), (2, 4), (4, 7), (7, 7)], [(0, 3), (4, 7)], trailing="none")
    array([ 0,  0,  1, -1], dtype=int32)
  """
  if not token_spans or not sentence_spans:
    return np.full(len(token_spans), -1, np.int32)
  starts, ends = np.array(token_spans).T  # [T]
  first, last = np.array(sentence_spans).T  # [S]
  blank = np.zeros(max(ends[-1], last[-1]), np.int64)
  if text is not None:
    blank = np.array([c.isspace() for c in text], np.int64)
  spaces = np.concatenate([[0], np.cumsum(blank)])  # in front of each place
  low = np.maximum(starts[:, None], first)  # [T, S]
  high = np.maximum(np.minimum(ends[:, None], last), low)
  shared = high - low
  solid = shared - (spaces[high] - spaces[low])
  inside = (starts == ends)[:, None] & (first <= starts[:, None]) & (starts[:, None] < last)
  weight = np.where(solid.any(axis=1, keepdims=True), solid, shared) + inside
  previous = np.maximum(np.searchsorted(first, starts, side="right") - 1, 0)
  rest = previous if trailing == "sentence" else -1
  return np.where(weight.any(axis=1), weight.argmax(axis=1), rest).astype(np.int32)


def _text(tokenizer, ids: Sequence[int]) -> str:
  return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


@functools.lru_cache(maxsize=8)
def _special_ids(tokenizer) -> frozenset[int]:
  added = tokenizer.added_tokens_decoder.items()
  return frozenset(i for i, token in added if token.special) | frozenset(tokenizer.all_special_ids)


@functools.cache
def _byte_of() -> dict[str, int]:
  """Byte-level BPE's alphabet: printable Latin-1 stands for itself, the rest from U+0100 on."""
  printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
  shifted = [byte for byte in range(256) if byte not in printable]
  return {chr(b): b for b in printable} | {chr(0x100 + n): b for n, b in enumerate(shifted)}


def _byte_level(tokens: Sequence[str]) -> list[bytes]:
  """The bytes of each token of a byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM2)."""
  alphabet, pieces = _byte_of(), []
  for token in tokens:
    try:
      pieces.append(bytes([alphabet[c] for c in token]))
    except KeyError:  # an added token, written as it is
      pieces.append(token.encode())
  return pieces


def _byte_fallback(tokens: Sequence[str]) -> list[bytes]:
  """The bytes of each token of a SentencePiece BPE with byte fallback (Gemma).

  A run of byte tokens that is no UTF-8 decodes to one U+FFFD a byte.
  """
  pieces = [token.replace("▁", " ").encode() for token in tokens]
  visible = [i for i, token in enumerate(tokens) if token]
  for is_byte, run in itertools.groupby(visible, lambda i: _BYTE_TOKEN.fullmatch(tokens[i])):
    places = list(run) if is_byte else []
    raw = [bytes.fromhex(tokens[i][3:5]) for i in places]
    try:
      b"".join(raw).decode()
    except UnicodeDecodeError:
      raw = ["\ufffd".encode()] * len(raw)
    for i, byte in zip(places, raw, strict=True):
      pieces[i] = byte
  return pieces


def _byte_spans(pieces: Sequence[bytes]) -> list[Span]:
  """Spans over the joined pieces, decoded with U+FFFD for what is no UTF-8."""
  data = b"".join(pieces)
  ends: list[int] = []  # of each character, in bytes
  place = 0
  while place < len(data):
    wrong = 0
    try:
      valid = data[place:].decode()
    except UnicodeDecodeError as error:
      valid = data[place : place + error.start].decode()
      wrong = error.end - error.start
    for character in valid:
      place += len(character.encode())
      ends.append(place)
    if wrong:
      place += wrong
      ends.append(place)
  token_ends = np.cumsum([len(piece) for piece in pieces])
  return _tile(np.searchsorted(ends, token_ends, side="right"))


def _prefix_spans(tokenizer, ids: Sequence[int], text: str) -> list[Span]:
  """Spans from decoding every prefix: quadratic, for tokenizers of other kinds."""
  ends, reached = [], 0
  for count in range(1, len(ids) + 1):
    prefix = _text(tokenizer, ids[:count]) if count < len(ids) else text
    shorter = min(len(prefix), len(text))
    same = next((i for i in range(shorter) if prefix[i] != text[i]), shorter)
    reached = max(reached, same)
    ends.append(reached)
  return _tile(ends)


def _tile(ends: Iterable[int]) -> list[Span]:
  ends = [int(end) for end in ends]
  return list(itertools.pairwise([0, *ends]))
