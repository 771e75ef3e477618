"""Readers against small rows in each public layout, a trap a test."""

import json
from collections import Counter

import pytest

from asc_jax.data import corpora, documents, splits
from asc_jax.data.corpora import asqa, quotesum, ragtruth
from asc_jax.types import Passage, UserError


def _lines(path, rows):
  path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
  return path


def _json(path, value):
  path.write_text(json.dumps(value))
  return path


# ---- any corpus


def test_unknown_corpus_names_the_near_one():
  with pytest.raises(UserError, match=r"'ragtrut' is unknown; did you mean ragtruth\?"):
    corpora.read("ragtrut")


def test_corpus_without_usable_rows_is_an_error_with_reasons(tmp_path):
  path = _lines(tmp_path / "a.jsonl", [{"id": "1", "input": "q", "passages": [], "output": []}])
  with pytest.raises(UserError, match=r"no usable question \(no passages: 1\)"):
    corpora.read("clapnq", path)
  path.write_text("")
  with pytest.raises(UserError, match=r"no usable question \(no rows\)"):
    corpora.read("clapnq", path)


def test_unpackaged_corpus_needs_a_path():
  with pytest.raises(UserError, match=r"set config\.data\.path"):
    corpora.read("asqa")


# ---- quickstart


def test_quickstart_is_what_the_main_job_needs():
  examples, dropped = corpora.read("quickstart")
  assert len(examples) == 40 and not dropped
  assert all(2 <= len(e.passages) <= 4 for e in examples)
  assert all(40 <= len(p.text.split()) <= 95 and p.title for e in examples for p in e.passages)
  assert all(sum(len(p.text.split()) for p in e.passages) <= 230 for e in examples)
  assert sum(e.answerable is False for e in examples) == 5
  parts = Counter(map(splits.of_example, examples))
  assert parts["train"] >= 24 and parts["eval"] >= 8
  assert all(len(e.answers) == 1 for e in examples)


def test_quickstart_format_takes_a_file_of_ones_own(tmp_path):
  row = {
    "id": "a",
    "question": "Why?",
    "passages": [{"title": "", "text": "So."}],
    "answer": "",
    "answerable": False,
  }
  (example,), _ = corpora.read("quickstart", _lines(tmp_path / "mine.jsonl", [row]))
  assert (
    example.passages == (Passage("", "So."),)
    and example.answers == ()
    and example.answerable is False
  )


# ---- ClapNQ


def _clapnq(**changes):
  row = {
    "id": "-12",
    "input": " how cold is it ",
    "passages": [{"title": "Ice", "text": "It is `` cold '' , he said .", "sentences": []}],
    "output": [{"answer": "Cold.", "selected_sentences": [], "meta": {}}],
  }
  return {**row, **changes}


def test_clapnq_answers_of_several_annotators(tmp_path):
  output = [{"answer": a} for a in ("Cold.", "", None, " Cold. ", "Very cold.")]
  path = _lines(tmp_path / "a.jsonl", [_clapnq(output=output)])
  (example,), dropped = corpora.read("clapnq", path)
  assert example.answers == ("Cold.", "Very cold.") and example.answerable is True
  assert example.id == "-12" and example.question == "how cold is it" and not dropped
  assert example.passages[0].text == "It is `` cold '' , he said ."  # tokenised, as published


@pytest.mark.parametrize("output", [[{"answer": ""}], [{"answer": None}], []])
def test_clapnq_unanswerable(tmp_path, output):
  path = _lines(tmp_path / "a.jsonl", [_clapnq(output=output, id=7)])
  (example,), _ = corpora.read("clapnq", path)
  assert example.answerable is False and example.answers == () and example.id == "7"


def test_clapnq_drops_and_counts(tmp_path):
  blank = _clapnq(id="2", passages=[{"title": "Ice", "text": " "}])
  rows = [_clapnq(), _clapnq(), blank, _clapnq(id="3", input=" ")]
  examples, dropped = corpora.read("clapnq", _lines(tmp_path / "a.jsonl", rows))
  assert len(examples) == 1
  assert dropped == {"repeats an earlier id": 1, "no passages": 1, "empty question": 1}


def test_clapnq_malformed_row_names_line_and_field(tmp_path):
  path = _lines(tmp_path / "a.jsonl", [_clapnq(), _clapnq(passages="text")])
  with pytest.raises(
    UserError, match=r"a\.jsonl:2: expected a list or null as 'passages', found a string"
  ):
    corpora.read("clapnq", path)


# ---- RAGTruth

QA = {
  "source_id": "1",
  "task_type": "QA",
  "source": "MARCO",
  "source_info": {
    "question": "what is it",
    "passages": "passage 1:One. See passage 3: no.\n\npassage 2:Two\nlines.\n\n",
  },
}
BUSINESS = {
  "name": "Café",
  "hours": None,
  "attributes": {"WiFi": "no", "Music": None},
  "review_info": [{"review_text": "Good."}],
}


def _response(**changes):
  row = {
    "id": "10",
    "source_id": "1",
    "model": "m",
    "temperature": 1,
    "labels": [],
    "split": "test",
    "quality": "good",
    "response": "It opened in 1932. It is red.",
  }
  return {**row, **changes}


def _label(start, end, text, kind):
  return {
    "start": start,
    "end": end,
    "text": text,
    "meta": "",
    "label_type": kind,
    "implicit_true": False,
    "due_to_null": False,
  }


@pytest.fixture
def ragtruth_folder(tmp_path):
  sources = [
    QA,
    {"source_id": "2", "task_type": "Data2txt", "source": "Yelp", "source_info": BUSINESS},
    {"source_id": "3", "task_type": "Summary", "source": "CNN", "source_info": "An article.\n"},
  ]
  _lines(tmp_path / "source_info.jsonl", sources)
  _lines(tmp_path / "response.jsonl", [_response()])
  return tmp_path


def test_ragtruth_splits_the_passages_string(ragtruth_folder):
  (example,), dropped = corpora.read("ragtruth", ragtruth_folder)
  assert example.passages == (Passage("", "One. See passage 3: no."), Passage("", "Two\nlines."))
  assert example.question == "what is it" and example.answers == ("It opened in 1932. It is red.",)
  assert dropped == {"task Data2txt": 1, "task Summary": 1}


def test_ragtruth_record_is_the_passage_with_its_nulls(ragtruth_folder):
  (example,), _ = corpora.read("ragtruth_data2txt", ragtruth_folder)
  assert example.passages[0].title == "Café" and json.loads(example.passages[0].text) == BUSINESS


def test_ragtruth_tasks_with_one_question_split_by_their_document(ragtruth_folder):
  (example,), _ = corpora.read("ragtruth_summary", ragtruth_folder)
  assert splits.of_example(example) == splits.split_of("An article.")


def test_ragtruth_answers_are_good_responses_without_error_spans(ragtruth_folder):
  rows = [
    _response(id="1", quality="truncated", response="Cut"),
    _response(id="2", quality="incorrect_refusal", response="No."),
    _response(id="3", labels=[_label(0, 3, "Bad", "Evident Conflict")], response="Bad."),
    _response(id="4", response="Fine."),
  ]
  _lines(ragtruth_folder / "response.jsonl", rows)
  (example,), _ = corpora.read("ragtruth", ragtruth_folder)
  assert example.answers == ("Fine.",)


def test_ragtruth_spans_keep_their_types_whatever_the_list_order(ragtruth_folder):
  labels = [
    _label(19, 28, "It is red", "Subtle Baseless Info"),
    _label(13, 17, "1932", "Evident Conflict"),
    _label(3, 17, "opened in 1932", "Subtle Conflict"),
  ]
  _lines(ragtruth_folder / "response.jsonl", [_response(labels=labels)])
  (response,), refused = ragtruth.labelled(ragtruth_folder)
  assert not refused
  assert response.spans == (
    (3, 17, "Subtle Conflict"),
    (13, 17, "Evident Conflict"),
    (19, 28, "Subtle Baseless Info"),
  )


@pytest.mark.parametrize(
  ("start", "end", "text"), [(13, 17, "1933"), (13, 99, "1932"), (-4, 17, ""), (5, 5, "")]
)
def test_ragtruth_refuses_rows_whose_label_is_not_what_it_points_at(
  ragtruth_folder, start, end, text
):
  rows = [
    _response(id="77", labels=[_label(start, end, text, "Evident Conflict")]),
    _response(id="78"),
  ]
  _lines(ragtruth_folder / "response.jsonl", rows)
  responses, refused = ragtruth.labelled(ragtruth_folder)
  assert [r.id for r in responses] == ["78"]
  assert refused == {"a label's text is not what its offsets point at": ["77"]}
  _, dropped = corpora.read("ragtruth", ragtruth_folder)
  assert dropped["response: a label's text is not what its offsets point at"] == 1


def test_ragtruth_older_label_form_and_missing_source(ragtruth_folder):
  old = {
    k: v
    for k, v in _label(0, 2, "It", "Evident Conflict").items()
    if k not in ("implicit_true", "due_to_null")
  }
  _lines(
    ragtruth_folder / "response.jsonl", [_response(labels=[old]), _response(id="5", source_id="9")]
  )
  responses, refused = ragtruth.labelled(ragtruth_folder)
  assert [r.id for r in responses] == ["10"] and refused == {"its source is missing": ["5"]}


# ---- ASQA

ASQA = {
  "ambiguous_question": "When did it open?",
  "qa_pairs": [
    {
      "question": "…the bridge?",
      "short_answers": ["1904", "in 1904"],
      "context": "No context provided",
      "wikipage": None,
    },
    {"question": "…the lift?", "short_answers": ["1932"], "wikipage": "Lift"},
  ],
  "wikipages": [],
  "annotations": [
    {"knowledge": [], "long_answer": " Two dates. "},
    {
      "knowledge": [
        {"content": "It opened in 1904.", "wikipage": "Bridge"},
        {"content": None, "wikipage": None},
        {"content": "It opened in 1904.", "wikipage": "Bridge"},
        {"content": "Lift: 1932.", "wikipage": None},
      ],
      "long_answer": "Other.",
    },
  ],
}


def test_asqa_official_layout(tmp_path):
  path = _json(tmp_path / "ASQA.json", {"train": {}, "dev": {"-5": ASQA}})
  (example,), _ = corpora.read("asqa", path)
  assert example.id == "-5" and example.question == "When did it open?"
  assert example.passages == (Passage("Bridge", "It opened in 1904."), Passage("", "Lift: 1932."))
  assert example.answers == ("Two dates.", "Other.")
  assert example.qa_pairs == (("1904", "in 1904"), ("1932",))


def test_asqa_without_notes_of_the_annotators_has_no_passages(tmp_path):
  bare = {**ASQA, "ambiguous_question": "Bare?", "annotations": ASQA["annotations"][:1]}
  path = _json(tmp_path / "ASQA.json", {"dev": {"1": ASQA, "2": bare}})
  examples, dropped = corpora.read("asqa", path)
  assert len(examples) == 1 and dropped == {"no passages": 1}


def test_asqa_alce_layout(tmp_path):
  docs = [
    {"id": "4", "title": "T", "text": "Text.", "score": 1.5},
    {"id": "5", "title": "U", "text": " ", "score": 1},
  ]
  row = {
    "question": "Q?",
    "sample_id": 3,
    "qa_pairs": ASQA["qa_pairs"],
    "docs": docs,
    "answer": "A.",
    "annotations": ASQA["annotations"],
  }
  (example,), _ = corpora.read("asqa", _json(tmp_path / "asqa_eval_gtr_top100.json", [row]))
  assert example.passages == (Passage("T", "Text."),) and len(example.qa_pairs) == 2


FEEDBACK = {
  "question": "Where?",
  "passages": [["Alps", "Alps\n\nThe Alps are high.", "They are in Europe."], ["Empty"]],
  "gold": "In Europe.",
  "prediction 1": "In Asia. They are high.",
  "feedback": {
    "errors": [
      {"start": 9, "end": 23, "error type": "Irrelevant", "explanation": ""},
      {"start": 0, "end": 8, "error type": "Wrong-Grounding", "explanation": ""},
    ],
    "missing-info": [],
    "corrected-prediction": "",
  },
}


def test_qa_feedback_both_layouts(tmp_path):
  other = {
    "question": "How?",
    "passages": [{"content": "Alps\n\nHigh.", "wikipage": "Alps"}],
    "answer": ["So.", ""],
    "text": "",
  }
  _json(tmp_path / "dev.json", [other])
  _json(
    tmp_path / "dev_feedback.json",
    [
      FEEDBACK,
      {**FEEDBACK, "question": "No passages?", "passages": []},
      {**FEEDBACK, "question": "How?"},
    ],
  )
  examples, dropped = corpora.read("asqa", tmp_path)
  assert [(e.question, e.answers) for e in examples] == [
    ("How?", ("So.",)),
    ("Where?", ("In Europe.",)),
  ]
  assert examples[0].passages == (Passage("Alps", "High."),)
  assert examples[1].passages == (Passage("Alps", "The Alps are high. They are in Europe."),)
  assert dropped == {"no passages": 1, "repeats an earlier question": 1}


def test_qa_feedback_spans_are_sorted(tmp_path):
  (answer,) = asqa.feedback(_json(tmp_path / "dev_feedback.json", [FEEDBACK]))
  assert [(answer.answer[s.start : s.end], s.kind) for s in answer.spans] == [
    ("In Asia.", "Wrong-Grounding"),
    ("They are high.", "Irrelevant"),
  ]


def test_qa_feedback_span_outside_the_answer_is_malformed(tmp_path):
  wrong = {
    **FEEDBACK,
    "feedback": {"errors": [{"start": 0, "end": 99, "error type": "Irrelevant"}]},
  }
  with pytest.raises(UserError, match=r"row 0: an error span \[0, 99\) lies outside prediction 1"):
    asqa.feedback(_json(tmp_path / "dev_feedback.json", [wrong]))


def test_asqa_refuses_other_objects(tmp_path):
  with pytest.raises(UserError, match="found an object with 'instruction', 'demos'"):
    corpora.read("asqa", _json(tmp_path / "prompts.json", {"instruction": "", "demos": []}))


# ---- ELI5


def test_eli5_original(tmp_path):
  row = {
    "id": "example_1",
    "question": "Why is it blue ? --T-- ",
    "document": "URL_0 One . <P>  <P> Two .",
    "answer": " Because . ",
  }
  body = {**row, "id": "example_2", "question": "Title --T-- the body"}
  examples, _ = corpora.read("eli5", _json(tmp_path / "examples_qda_long.json", [row, body]))
  assert [e.question for e in examples] == ["Why is it blue ?", "Title the body"]
  assert examples[0].passages == (Passage("", "URL_0 One ."), Passage("", "Two ."))
  assert examples[0].answers == ("Because .",)


def test_eli5_alce_with_and_without_docs(tmp_path):
  row = {"question": "Why?", "question_ctx": "[removed]", "answer": "So.", "claims": ["c"]}
  docs = {
    **row,
    "question": "How?",
    "docs": [{"id": "1", "title": None, "text": "Text.", "score": 1}],
  }
  examples, dropped = corpora.read(
    "eli5", _json(tmp_path / "eli5_eval_bm25_top100.json", [row, docs])
  )
  assert [e.passages for e in examples] == [(Passage("", "Text."),)] and dropped == {
    "no passages": 1
  }


# ---- ExpertQA


def _claim(evidence, **changes):
  return {
    "claim_string": "c",
    "evidence": evidence,
    "support": None,
    "revised_evidence": None,
    **changes,
  }


def test_expertqa_unites_distinct_passages_of_all_claims(tmp_path):
  claims = [
    _claim(["[1] https://a\n\nText one.", "[2] https://b", "[3] https://c "], revised_evidence="x"),
    _claim(
      ["[4] https://a\n\nText one.", "[1] https://a\n\nText\n\ntwo."],
      revised_evidence=["y"],
      extra=1,
    ),
    _claim([]),
  ]
  answers = {
    "rr_gs_gpt4": {
      "answer_string": "A",
      "claims": claims,
      "revised_answer_string": " R. ",
      "annotator_id": "x",
    }
  }
  only_urls = {
    "gpt4": {
      "answer_string": "A",
      "claims": [_claim(["[1] https://a"])],
      "revised_answer_string": None,
    }
  }
  rows = [
    {"question": "Q?", "answers": answers, "metadata": {}},
    {"question": "R?", "answers": only_urls, "metadata": {}},
  ]
  examples, dropped = corpora.read("expertqa", _lines(tmp_path / "rand_val.jsonl", rows))
  (example,) = examples
  assert example.passages == (
    Passage("https://a", "Text one."),
    Passage("https://a", "Text\n\ntwo."),
  )
  assert example.answers == ("R.",) and dropped == {"no passages": 1}


def test_expertqa_json_lines_called_json_have_no_passages(tmp_path):
  rows = [{"example_id": i, "context": "", "question": f"Q{i}?", "answer": "A"} for i in range(2)]
  with pytest.raises(UserError, match=r"no usable question \(no passages: 2\)"):
    corpora.read("expertqa", _lines(tmp_path / "rand_lfqa_val.json", rows))


# ---- QuoteSum


def _quotesum(**changes):
  row = {
    "qid": "q1",
    "unique_id": "q1_0",
    "question": "What?",
    "summary": "It was [ 3 built in 1904 ] . So [ 1 it is old ]",
    "covered_short_answers": "",
    "disambig_questions": "",
  }
  for i in range(1, 9):
    row |= {f"title{i}": "", f"source{i}": "", f"short_ans_{i}": ""}
  row |= {
    "title1": "Age",
    "source1": "it is old",
    "short_ans_1": "old",
    "title3": "Date",
    "source3": "built in 1904",
    "short_ans_3": "1904",
  }
  return {**row, **changes}


def test_quotesum_unused_slots_and_marks(tmp_path):
  path = _lines(tmp_path / "dev.jsonl", [_quotesum(), _quotesum(unique_id="q1_1", summary="Old.")])
  (example,), dropped = corpora.read("quotesum", path)
  assert example.passages == (Passage("Age", "it is old"), Passage("Date", "built in 1904"))
  assert example.answers == ("It was built in 1904. So it is old", "Old.")
  assert example.aliases == ("old", "1904")
  assert dropped == {"one more answer to an earlier question (kept there)": 1}
  first = quotesum.quoted(path)[0]
  assert [(first.answer[s:e], first.passages[p].title) for s, e, p in first.quotes] == [
    ("built in 1904", "Date"),
    ("it is old", "Age"),
  ]


# ---- the public files themselves


@pytest.mark.parametrize(
  ("name", "folder", "questions", "dropped"),
  [
    (
      "ragtruth",
      "ragtruth",
      100,
      {"response: its source is missing": 50, "task Data2txt": 1, "task Summary": 1},
    ),
    ("clapnq", "clapnq", 400, {}),
    ("asqa", "asqa", 727, {"no passages": 21, "repeats an earlier question": 59}),
    ("eli5", "eli5", 7, {"no passages": 500, "repeats an earlier id": 7}),
    ("expertqa", "expertqa", 149, {"no passages": 68}),
    ("quotesum", "quotesum", 60, {"one more answer to an earlier question (kept there)": 116}),
  ],
)
def test_public_rows(shared, name, folder, questions, dropped):
  examples, left_out = corpora.read(name, shared / folder)
  assert (len(examples), left_out) == (questions, dropped)
  assert {e.corpus for e in examples} == {name}
  assert all(p.text.strip() for e in examples for p in e.passages)
  assert all(a.strip() for e in examples for a in e.answers)


def test_public_ragtruth_spans_point_at_their_text(shared):
  responses, refused = ragtruth.labelled(shared / "ragtruth")
  assert len(responses) == 559 + 1  # and the one of the published description
  assert list(refused) == ["its source is missing"]
  assert sum(len(r.spans) for r in responses) > 100


def test_public_quotesum_quotations_stand_in_their_source(shared):
  def flat(text):
    return "".join(c for c in text if c.isalnum()).casefold()

  quotes = [
    (flat(a.answer[start:end]), flat(a.passages[i].title), flat(a.passages[i].text))
    for a in quotesum.quoted(shared / "quotesum")
    for start, end, i in a.quotes
  ]
  assert len(quotes) == 743  # the opening brackets in the file
  assert sum(quote in title or quote in text for quote, title, text in quotes) == 742


def test_document_is_titles_over_texts():
  assert documents.document([Passage("A", "x"), Passage("", "y")]) == "A\nx\n\ny"
