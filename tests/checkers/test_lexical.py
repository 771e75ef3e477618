"""The lexical instrument on hand-worked sentences."""

import numpy as np
import pytest

from asc_jax import checkers
from asc_jax.checkers import lexical
from asc_jax.types import UserError

DOCUMENT = "The bridge opened in 1932 and cost 1,200 crowns. Anna's firm built it."


@pytest.mark.parametrize(
  ("sentence", "share"),
  [
    ("The bridge opened in 1932.", 3 / 3),
    ("The bridge opened in 1933.", 2 / 3),
    ("It cost 1200 crowns", 3 / 3),  # thousands commas do not count
    ("ANNA’S firm built the tunnel", 3 / 4),  # nor case, nor the kind of apostrophe
    ("Tunnel, bridge, tunnel!", 1 / 3),  # every occurrence counts
    ("It was the", 2 / 3),  # only words of grammar: all of them count
    ("3.5", 0.0),
  ],
)
def test_share_of_content_words(sentence, share):
  assert checkers.load("lexical").score([DOCUMENT], [sentence])[0] == np.float32(share)


def test_the_missing_word_is_found_wherever_the_document_is_long():
  # A window that truncates would let the wrong year through in the long document.
  passage = "The bridge over the river opened in 1932 after long work. " * 4
  checker = checkers.load("lexical")
  sentences = ["The bridge opened in 1933.", "The bridge opened in 1932."]
  for document in (passage, passage * 20):
    wrong, right = checker.score([document] * 2, sentences)
    assert wrong < right == 1


def test_words_of_other_scripts_and_fractions_are_words():
  assert lexical.words("橋は1932年 ½ Čapek_x") == ["橋は", "1932", "年", "½", "čapek", "x"]


def test_a_checkpoint_is_refused():
  with pytest.raises(UserError, match=r"drop config\.checker\.path=there"):
    checkers.load("lexical", "there")
