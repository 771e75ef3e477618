"""The blocks of a completion, however much of them is there."""

import pytest

from asc_jax.corver import blocks


@pytest.mark.parametrize(
  ("text", "thinking", "answer", "well_formed"),
  [
    ("<think>Hm.</think><answer>Ulm.</answer>", "Hm.", "Ulm.", True),
    ("<think>\nHm.\n</think>\n\n<answer>Ulm.</answer> <|end|>", "\nHm.\n", "Ulm.", True),
    ("<think></think><answer></answer>", "", "", True),
    ("<think>Hm.</think> Ulm.", "Hm.", " Ulm.", False),
    ("<think>Hm.</think><answer>Ulm.", "Hm.", "Ulm.", False),
    ("<think>Hm. <answer>Ulm.</answer>", "Hm. ", "Ulm.", False),
    ("<think>It may be Ul", "It may be Ul", None, False),
    ("<answer>Ulm.</answer><think>Hm.</think>", "Hm.", "Ulm.", False),
    ("<answer>Ulm. <think>Hm.", "Hm.", "Ulm. ", False),
    ("<answer>Ulm.</answer>", None, "Ulm.", False),
    ("It is Ulm.", None, "It is Ulm.", False),
    ("<think>Hm.</think><answer>A</answer><answer>B</answer>", "Hm.", "A", False),
    ("", None, "", False),
  ],
)
def test_find(text, thinking, answer, well_formed):
  found = blocks.find(text)
  parts = [span and text[slice(*span)] for span in (found.thinking, found.answer)]
  assert parts == [thinking, answer]
  assert found.well_formed == well_formed


def test_other_tags():
  text = "<r>Hm.</r><a>Ulm.</a>"
  assert blocks.find(text, think_tag="r", answer_tag="a") == blocks.Blocks((3, 6), (13, 17), True)
  assert blocks.find(text) == blocks.Blocks(None, (0, len(text)), False)


def test_sentences_of_both_blocks_leave_out_tags_and_white_space():
  text = "<think> It is in Baden. Or not?\n</think>\n<answer> Ulm. </answer>."
  spans = blocks.sentence_spans(text, blocks.find(text))
  assert [text[a:b] for a, b in spans] == ["It is in Baden.", "Or not?", "Ulm."]
  cut = "<think>One. Tw"
  assert [cut[a:b] for a, b in blocks.sentence_spans(cut, blocks.find(cut))] == ["One.", "Tw"]
