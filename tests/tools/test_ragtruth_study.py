"""The human study on hand-made responses, and on the public rows."""

import json

import numpy as np
import pytest

from asc_jax.data.corpora import ragtruth
from asc_jax.tools import ragtruth_study

PASSAGE = "The old stone bridge opened in the spring of 1932 after long work."
COPIED = "The old stone bridge opened in the spring of 1932."
FALSE, TRUE = "A king paid for all of it.", "Work on it took long."


def response(id_, source, model, text, quotes=()):
  labels = [
    {"start": text.index(q), "end": text.index(q) + len(q), "text": q, "label_type": kind}
    for q, kind in quotes
  ]
  return {
    "id": id_,
    "source_id": source,
    "model": model,
    "temperature": 0.7,
    "labels": labels,
    "split": "test",
    "quality": "good",
    "response": text,
  }


@pytest.fixture
def folder(tmp_path):
  sources = [
    {
      "source_id": str(i),
      "task_type": "QA",
      "source": "x",
      "source_info": {"question": f"Why {i}?", "passages": f"passage 1:{PASSAGE}\n\n"},
    }
    for i in range(2)
  ]
  # The later span stands first in the list, and the kinds differ.
  both = [("king", "Evident Conflict"), ("1932", "Subtle Baseless Info")]
  responses = [
    response("a", "0", "m1", f"{COPIED} {FALSE}", both),
    response("b", "1", "m2", f"{TRUE} {COPIED} {FALSE}", [("king", "Evident Conflict")]),
    response("c", "1", "m2", TRUE),
  ]
  bad = response("d", "1", "m2", TRUE, [("long", "Evident Conflict")])
  bad["labels"][0]["text"] = "wrong"
  for name, rows in (("source_info", sources), ("response", [*responses, bad])):
    (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
  return tmp_path


def test_each_sentence_gets_the_kind_of_its_own_span(folder):
  first, *_ = ragtruth.labelled(folder)[0]
  got = ragtruth_study.read_sentences(first, 0.5)
  assert [(s.copied, set(s.kinds)) for s in got] == [
    (True, {"Subtle Baseless Info"}),
    (False, {"Evident Conflict"}),
  ]


def test_shares_are_the_hand_count(folder):
  found = [s for r in ragtruth.labelled(folder)[0] for s in ragtruth_study.read_sentences(r, 0.5)]
  table = {
    name: ragtruth_study.shares(group, kind, 50)
    for name, group, kind in ragtruth_study.groups(found)
  }
  assert table["all"].sentences == 6
  np.testing.assert_allclose(table["all"].points, [2 / 4, 1 / 2, 1.0])
  np.testing.assert_allclose(table["model m2"].points, [1 / 3, 0, np.nan])
  np.testing.assert_allclose(table["only Subtle Baseless Info"].points, [0, 1 / 2, 0])
  assert table["model m1"].points[0] == 1


def test_the_mismatched_row_is_refused_with_its_id(folder, capsys):
  ragtruth_study.main(str(folder), 0.5, "all", 20)
  out = capsys.readouterr().out
  assert "1 responses (d, ...)" in out and "6 sentences of 3 responses to 2 sources" in out


def test_public_rows_give_about_nine_and_one_percent(shared):
  responses, _ = ragtruth.labelled(shared / "ragtruth")
  found = [
    s
    for r in responses
    if r.task == "QA" and r.split == "test"
    for s in ragtruth_study.read_sentences(r, 0.5)
  ]
  authored, copied, ratio = ragtruth_study.shares(found, None, 100).points
  assert 0.08 < authored < 0.11 and 0.003 < copied < 0.015 and ratio > 6
