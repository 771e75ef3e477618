"""Labelled pairs of every set, from small rows in the public layouts."""

import json

import pytest

from asc_jax.data import splits, support_pairs
from asc_jax.types import UserError


def _lines(folder, name, rows):
  folder.mkdir(exist_ok=True)
  (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))


def _pairs(root, name):
  return [tuple(p) for p in support_pairs.read(root)[name]]


def test_wice_joins_a_claims_chunks_once_and_in_order(tmp_path):
  def row(label, indices, sentences, claim="c"):
    return {
      "label": label,
      "claim": claim,
      "evidence": sentences,
      "meta": {"id": claim, "chunk_idx": indices},
    }

  rows = [
    row("supported", [4, 7], ["four", "seven"]),
    row("supported", [2, 4], ["two", "four"]),
    row("partially_supported", [0], ["zero"], "d"),
    row("not_supported", [1], ["one"], "e"),
  ]
  _lines(tmp_path / "wice", "oracle_chunks_claim_dev.jsonl", rows)
  assert _pairs(tmp_path, "wice") == [
    ("two four seven", "c", True, "c", ""),
    ("zero", "d", False, "d", ""),
    ("one", "e", False, "e", ""),
  ]
  _lines(tmp_path / "wice", "oracle_chunks_claim_dev.jsonl", [row("supported", [4], ["a", "b"])])
  with pytest.raises(UserError, match=r"dev\.jsonl:1: 2 sentences of evidence, 1 chunk_idx"):
    support_pairs.read(tmp_path)
  _lines(tmp_path / "wice", "oracle_chunks_claim_dev.jsonl", [row("supported", [4], ["..."])])
  assert _pairs(tmp_path, "wice") == []


def test_factcheck_gpt_supports_only_completely(tmp_path):
  stances = ["completely-support", "partially-support", "refute", "irrelevant"]
  rows = [{"claim": "c", "evidence": f"e{i}", "stance": s} for i, s in enumerate(stances)]
  rows += [rows[0], {"claim": "c", "evidence": " ", "stance": "irrelevant"}]
  _lines(tmp_path / "factcheck_gpt", "a.jsonl", rows)
  assert [p[2] for p in _pairs(tmp_path, "factcheck_gpt")] == [True, False, False, False]


def test_attributionbench_drops_marks_and_rows_without_reference(tmp_path):
  row = {
    "question": "q?",
    "claim": "It is 16 [2].",
    "references": ["[2] Sixteen [1] it is.", "Title: X"],
    "attribution_label": "attributable",
  }
  other = {**row, "claim": "The [sic] array a[3]b", "attribution_label": "not attributable"}
  rows = [row, other, {**row, "references": []}, {**row, "references": [""]}]
  _lines(tmp_path / "attributionbench", "dev.jsonl", rows)
  assert _pairs(tmp_path, "attributionbench") == [
    ("Sixteen it is.\n\nTitle: X", "It is 16.", True, "q?", "q?"),
    ("Sixteen it is.\n\nTitle: X", "The [sic] array a[3]b", False, "q?", "q?"),
  ]


def test_begin_has_no_quoting_and_no_generic_pairs(tmp_path):
  (tmp_path / "begin").mkdir()
  header = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\n"
  rows = 'm\twow\tk "1\tq\tr1\tFully attributable\nm\twow\tk "1\tq\t"r2\tNot fully attributable\nm\twow\tk\tq\tr3\tGeneric\n'
  (tmp_path / "begin" / "begin_dev_wow.tsv").write_text(header + rows)
  assert _pairs(tmp_path, "begin") == [
    ('k "1', "r1", True, 'k "1', ""),
    ('k "1', '"r2', False, 'k "1', ""),
  ]


def test_summedits_groups_by_document(tmp_path):
  (tmp_path / "summedits").mkdir()
  rows = [{"id": f"x_{i}", "doc": "d", "summary": f"s{i}", "label": i} for i in (0, 1)]
  (tmp_path / "summedits" / "summedits_x.json").write_text(json.dumps(rows))
  assert _pairs(tmp_path, "summedits") == [("d", "s0", False, "d", ""), ("d", "s1", True, "d", "")]


def test_qa_feedback_sentences_and_the_spans_that_count(tmp_path):
  answer = (
    "Ice is cold. Ice is hot. Ice is dry. I cannot answer this from the passages. Ice floats."
  )
  errors = [
    {"start": 77, "end": 88, "error type": "Irrelevant"},  # "Ice floats."
    {"start": 20, "end": 28, "error type": "Unverifiable"},  # "hot. Ice": two sentences
    {"start": 12, "end": 13, "error type": "Wrong-Grounding"},  # the space between two
  ]
  assert [answer[e["start"] : e["end"]] for e in errors] == ["Ice floats.", "hot. Ice", " "]
  row = {
    "question": "What is ice?",
    "passages": [["Ice", "Ice\n\nIce is cold.", "It floats."]],
    "gold": "",
    "prediction 1": answer,
    "feedback": {"errors": errors},
  }
  (tmp_path / "asqa").mkdir()
  (tmp_path / "asqa" / "dev_feedback.json").write_text(json.dumps([row]))
  document = "Ice\nIce is cold. It floats."
  assert _pairs(tmp_path, "qa_feedback") == [
    (document, "Ice is cold.", True, "What is ice?", "What is ice?"),
    (document, "Ice is hot.", False, "What is ice?", "What is ice?"),
    (document, "Ice is dry.", False, "What is ice?", "What is ice?"),
    (document, "Ice floats.", True, "What is ice?", "What is ice?"),
  ]


def test_ragtruth_takes_good_answers_to_questions(tmp_path):
  def response(id_, **changes):
    row = {
      "id": id_,
      "source_id": "1",
      "model": "m",
      "labels": [],
      "split": "test",
      "quality": "good",
      "response": "It is red. It is old.",
    }
    return {**row, **changes}

  label = {"start": 17, "end": 20, "text": "old", "label_type": "Evident Conflict"}
  folder = tmp_path / "ragtruth"
  _lines(
    folder,
    "response.jsonl",
    [
      response("1", labels=[label]),
      response("2", quality="truncated", response="Cut."),
      response("3", labels=[{**label, "text": "new"}], response="A. It is not good."),
      response("4", source_id="2", response="A summary."),
    ],
  )
  _lines(
    folder,
    "source_info.jsonl",
    [
      {
        "source_id": "1",
        "task_type": "QA",
        "source": "",
        "source_info": {"question": "what", "passages": "passage 1:Red.\n\npassage 2:Old.\n\n"},
      },
      {"source_id": "2", "task_type": "Summary", "source": "", "source_info": "Text."},
    ],
  )
  assert _pairs(tmp_path, "ragtruth") == [
    ("Red.\n\nOld.", "It is red.", True, "what", "what"),
    ("Red.\n\nOld.", "It is old.", False, "what", "what"),
  ]


def test_pairs_split_by_question_or_by_group():
  pair = support_pairs.SupportPair("d", "s", True, "some claim")
  assert pair.split == splits.checker_split_of("some claim")
  questions = {
    support_pairs.SupportPair("d", "s", True, "g", f"question {i}").split for i in range(40)
  }
  assert questions == set(splits.SPLITS)


def test_root_without_any_set_is_an_error(tmp_path):
  with pytest.raises(UserError, match="holds none of the folders asqa, attributionbench, begin"):
    support_pairs.read(tmp_path)


def test_public_sets(shared):
  sets = support_pairs.read(shared)
  # From the files' own labels, counted apart; pairs that repeat count once.
  assert len(sets["wice"]) == 349
  assert len(sets["begin"]) == 2866 and len(sets["summedits"]) == 861
  assert len(sets["factcheck_gpt"]) == 2589
  assert sum(p.supported for p in sets["factcheck_gpt"]) == 520
  for name, pairs in sets.items():
    assert all(p.document.strip() and p.sentence.strip() and p.group for p in pairs), name
    fitted = {p.group for p in pairs if p.split == "checker_a"}
    held_out = {p.group for p in pairs if p.split != "checker_a"}
    assert fitted and held_out and not fitted & held_out
