"""Sentence spans: the reported faults, the rules, and 60 + 20 hand-marked answers."""

import hashlib
import json
import pathlib

import public_rows
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_jax.text import sentences

HERE = pathlib.Path(__file__).parent


def parts(text):
  return [text[start:end] for start, end in sentences.split(text)]


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    # vibrantlabsai/ragas#1651: no closing stop
    ("The bridge opened in 1932", ["The bridge opened in 1932"]),
    ("橋は1932年に開通した。", ["橋は1932年に開通した。"]),
    ("Is it open? Yes!", ["Is it open?", "Yes!"]),
    # nipunsadvilkar/pySBD#49: repeated list items
    (
      "Two rules apply. 1) Keep left. 2) Keep left.",
      ["Two rules apply.", "1) Keep left.", "2) Keep left."],
    ),
    # nltk/nltk#3728: a closing mark behind the stop
    ("“It opened in 1904.” The lift came later.", ["“It opened in 1904.”", "The lift came later."]),
    ('"It opened in 1904." The lift came later.', ['"It opened in 1904."', "The lift came later."]),
    ("« Il pleut. » Puis rien.", ["« Il pleut. »", "Puis rien."]),
    ("„Es regnet.“ Dann nichts.", ["„Es regnet.“", "Dann nichts."]),
    ("»Es regnet.« Dann nichts.", ["»Es regnet.«", "Dann nichts."]),
    # explosion/spaCy#8727: a bracket behind the stop
    (
      "The bridge is closed. [sic] Cars use the tunnel.",
      ["The bridge is closed. [sic]", "Cars use the tunnel."],
    ),
    # nipunsadvilkar/pySBD#99: reported speech, full-width decimals
    ("“水位在上升。”工程师说。大坝已关闭。", ["“水位在上升。”工程师说。", "大坝已关闭。"]),
    ("气温是３．５度。", ["气温是３．５度。"]),
    # wikimedia/sentencex#17
    ("The tower is tall.\n\n  It is old.  ", ["The tower is tall.", "It is old."]),
  ],
)
def test_reported_faults_are_absent(text, expected):
  assert parts(text) == expected
  assert_valid(text)


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    # 1 lines and markers
    ("- a\n- b\n", ["- a", "- b"]),
    ("1.\nGo there\n2. Stop. 3. Rest.", ["1.\nGo there", "2. Stop.", "3. Rest."]),
    ("A.", ["A."]),
    # 2 full-width stops
    ("水位上升。大坝关闭！对吗？是。", ["水位上升。", "大坝关闭！", "对吗？", "是。"]),
    ("他说：“水位在上升。”大坝已关闭。", ["他说：“水位在上升。”", "大坝已关闭。"]),
    ("彼は「雨だ。」と言った。終わり。", ["彼は「雨だ。」と言った。", "終わり。"]),
    ("पानी बढ़ा। बाँध बंद है।", ["पानी बढ़ा।", "बाँध बंद है।"]),
    # 3 closing marks
    ("He asked `` why ? '' again . Rain fell .", ["He asked `` why ? '' again .", "Rain fell ."]),
    ("“Stop!” he said. “Go!” He left.", ["“Stop!” he said.", "“Go!”", "He left."]),
    # 4 notes
    (
      "It rose.[2] It fell. [1][3] It stayed (Passage 2).",
      ["It rose.[2]", "It fell. [1][3]", "It stayed (Passage 2)."],
    ),
    ("It rose. (He saw it.) It fell.", ["It rose.", "(He saw it.)", "It fell."]),
    ("It rose. (2) It fell.", ["It rose.", "(2) It fell."]),
    ("It rose. [It] then fell.", ["It rose.", "[It] then fell."]),
    # 5 no word
    ("Rain.\n---\nSnow.\n***", ["Rain.\n---", "Snow.\n***"]),
    ("---\nRain.", ["---\nRain."]),
    ("...", ["..."]),
    ("", []),
    (" \n ", []),
  ],
)
def test_the_stated_rules(text, expected):
  assert parts(text) == expected
  assert_valid(text)


def assert_valid(text):
  spans = sentences.split(text)
  assert bool(spans) == bool(text.strip())
  last = 0
  for start, end in spans:
    assert last <= start < end <= len(text)
    assert text[start:end] == text[start:end].strip()
    last = end
  gaps = zip(
    [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True
  )
  assert all(not text[a:b].strip() for a, b in gaps)
  owned = sentences.own_whitespace(text, spans)
  assert "".join(text[start:end] for start, end in owned) == (text if spans else "")
  assert all(a <= start and end <= b for (start, end), (a, b) in zip(spans, owned, strict=True))


PIECES = [
  "Rain fell",
  " It",
  ". ",
  "! ",
  "? ",
  "...",
  "\n",
  "\r\n",
  "\u2028",
  " ",
  "\u00a0",
  '"',
  "'",
  "“",
  "”",
  "«",
  "»",
  "(",
  ")",
  "[1]",
  "[sic] ",
  "1) ",
  "2. ",
  "* ",
  "。",
  "」",
  "「",
  "：",
  "e.g. ",
  "3.5",
  "``",
  "''",
  "a",
  "é",
  "\ud83e\udd26",
  "\x1c",
  "—",
]


@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.text(max_size=60)))
@settings(max_examples=600, deadline=None)
def test_spans_are_valid_and_lose_nothing(text):
  assert_valid(text)


@pytest.mark.parametrize(
  ("file", "answers", "least_f1", "least_exact"),
  [("splitting_gold.json", 60, 0.99, 57), ("splitting_heldout.json", 20, 0.98, 18)],
)
def test_hand_marked_answers(shared, file, answers, least_f1, least_exact):
  gold = json.loads((HERE / file).read_text())
  assert len(gold) == answers
  hits = found = wanted = exact = 0
  for row in gold:
    text = public_rows.text(shared, row)
    assert hashlib.sha256(text.encode()).hexdigest() == row["sha256"]
    ours = {start for start, _ in sentences.split(text)[1:]}
    theirs = {start for start, _ in row["boundaries"][1:]}
    hits, found, wanted = hits + len(ours & theirs), found + len(ours), wanted + len(theirs)
    exact += ours == theirs
  assert 2 * hits / (found + wanted) >= least_f1
  assert exact >= least_exact
