"""Short-answer corpora in every public layout, a trap a test."""

import json

import pytest

from asc_jax.data import corpora
from asc_jax.types import Example, Passage, UserError


def _write(path, text):
  path.write_text(text, encoding="utf-8")
  return path


def _read_one(name, path):
  (example,), dropped = corpora.read(name, path)
  assert not dropped and example.corpus == name
  return example


# ---- NQ-Open


def test_nq_open_answers_are_the_benchmarks_own(tmp_path):
  row = {
    "question": " when was it ",
    "answer": ["1904", "in 1904", " "],
    "def_correct_predictions": ["the year 1904"],
    "def_incorrect_predictions": ["1905"],
  }
  example = _read_one("nq_open", _write(tmp_path / "NQ-open.test.jsonl", json.dumps(row)))
  assert example.question == "when was it" and example.aliases == ("1904", "in 1904")
  assert example.passages == ()


def test_nq_open_without_answer_is_dropped(tmp_path):
  rows = [
    {"question": "a", "answer": []},
    {"question": "b", "answer": ["x"]},
    {"question": "b", "answer": ["y"]},
  ]
  examples, dropped = corpora.read(
    "nq_open", _write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
  )
  assert [e.aliases for e in examples] == [("x",)]
  assert dropped == {"no aliases": 1, "repeats an earlier id": 1}


# ---- WebQuestions


def test_webquestions_flat_layout_leaves_addresses_out(tmp_path):
  rows = [
    {"qId": "wqr000009", "answers": ["http://a.example/b"], "qText": "how old?"},
    {"qId": "wqr000001", "answers": ["Padmé", "https://x", "http"], "qText": "who?"},
  ]
  examples, dropped = corpora.read(
    "webquestions", _write(tmp_path / "main_val.json", json.dumps(rows))
  )
  assert [(e.id, e.aliases) for e in examples] == [("wqr000001", ("Padmé", "http"))]
  assert dropped == {"no aliases": 1}


def test_webquestions_lisp_layout(tmp_path):
  target = '(list (description "New York City") (description Paris) (description "a \\"b\\" (c)"))'
  row = {"url": "http://www.freebase.com/x", "targetValue": target, "utterance": "where?"}
  example = _read_one(
    "webquestions", _write(tmp_path / "webquestions.examples.train.json", json.dumps([row]))
  )
  assert example.aliases == ("New York City", "Paris", 'a "b" (c)')


@pytest.mark.parametrize(
  "target",
  ["Paris", '(list (description "Paris)', "(description Paris)", "(list (description a b))"],
)
def test_webquestions_other_lisp_is_malformed(tmp_path, target):
  row = {"targetValue": target, "utterance": "where?"}
  with pytest.raises(UserError, match=r"a\.json, row 0: expected a lisp list of descriptions"):
    corpora.read("webquestions", _write(tmp_path / "a.json", json.dumps([row])))


# ---- TriviaQA


def test_triviaqa_official_layout(tmp_path):
  answer = {
    "Aliases": ["Sunset Blvd"],
    "NormalizedAliases": ["sunset blvd"],
    "NormalizedValue": "sunset boulevard",
    "Type": "WikipediaEntity",
    "Value": "Sunset Boulevard",
  }
  data = [
    {"Answer": answer, "Question": "Which musical?", "QuestionId": "tc_33", "QuestionSource": ""},
    {"Question": "A test question?", "QuestionId": "tc_34"},
  ]
  path = _write(
    tmp_path / "web-dev.json", json.dumps({"Data": data, "Domain": "Web", "Version": 1.0})
  )
  examples, dropped = corpora.read("triviaqa", path)
  assert [(e.id, e.aliases) for e in examples] == [
    ("tc_33", ("Sunset Boulevard", "Sunset Blvd", "sunset blvd"))
  ]
  assert dropped == {"no aliases": 1}


def test_triviaqa_flat_layouts(tmp_path):
  golden = {"id": "test_1", "question": "Who?", "golden_answers": ["A", "B"]}
  array = [
    {
      "qid": "tqa_1",
      "dataset": "triviaqa",
      "question": "Who?",
      "gold_answer": "A",
      "aliases": ["B", "A"],
    }
  ]
  assert _read_one("triviaqa", _write(tmp_path / "a.jsonl", json.dumps(golden))).aliases == (
    "A",
    "B",
  )
  assert _read_one("triviaqa", _write(tmp_path / "b.json", json.dumps(array))).aliases == ("A", "B")


@pytest.mark.parametrize(
  ("published", "question"),
  [
    ('"Who wrote ""A cauliflower is a cabbage""?"', 'Who wrote "A cauliflower is a cabbage"?'),
    ('"""Serpula"" is which decay?"', '"Serpula" is which decay?'),
    ('"Who said, ""x"""', 'Who said, "x"'),
    ('"Hello" was whose hit?', '"Hello" was whose hit?'),
    ('"A" or "B"', '"A" or "B"'),
    ('"Only quoted"', '"Only quoted"'),
  ],
)
def test_triviaqa_questions_still_quoted_as_csv(tmp_path, published, question):
  row = {"id": "1", "question": published, "golden_answers": ["A"]}
  assert _read_one("triviaqa", _write(tmp_path / "a.jsonl", json.dumps(row))).question == question


# ---- PopQA

HEADER = "id\tsubj\tprop\tobj\ts_pop\to_pop\tquestion\tpossible_answers\n"


def test_popqa_json_strings_in_tsv(tmp_path):
  row = '7\t"Say ""Hi"""\toccupation\tpolitician\t142\t25692\tWhat is it?\t"[""politician"", ""pol""]"\n'
  example = _read_one("popqa", _write(tmp_path / "popQA.tsv", HEADER + row))
  assert example.aliases == ("politician", "pol") and example.id == "7"
  assert dict(example.extra) == {"s_pop": 142, "prop": "occupation"}


def test_popqa_json_layouts(tmp_path):
  columns = {
    "id": 7,
    "question": "What?",
    "possible_answers": '["a", "b"]',
    "s_pop": 5,
    "prop": "author",
  }
  paragraphs = [{"title": "T", "text": "Text.", "is_supporting": True}]
  example = _read_one(
    "popqa", _write(tmp_path / "a.json", json.dumps([{**columns, "paragraphs": paragraphs}]))
  )
  assert example.aliases == ("a", "b") and example.passages == (Passage("T", "Text."),)
  golden = {
    "id": "test_1",
    "question": "What?",
    "golden_answers": ["a"],
    "metadata": {"s_pop": 5, "prop": "author"},
  }
  example = _read_one("popqa", _write(tmp_path / "b.jsonl", json.dumps(golden)))
  assert example.aliases == ("a",) and dict(example.extra)["s_pop"] == 5


@pytest.mark.parametrize(
  ("pop", "answers", "message"),
  [
    ("many", "[]", r"popQA\.tsv:2: expected an integer as 's_pop', found 'many'"),
    ("5", "a, b", r"popQA\.tsv:2: expected a JSON list in the string 'possible_answers'"),
    ("5", "[1]", r"popQA\.tsv:2, possible_answers\[0\]: expected a string, found an integer"),
  ],
)
def test_popqa_malformed(tmp_path, pop, answers, message):
  text = HEADER + f"7\ts\tp\to\t{pop}\t1\tWhat?\t{answers}\n"
  with pytest.raises(UserError, match=message):
    corpora.read("popqa", _write(tmp_path / "popQA.tsv", text))


# ---- SimpleQA


def test_simpleqa_python_literal_metadata(tmp_path):
  text = (
    "metadata,problem,answer\n"
    + "\"{'topic': 'Art', 'answer_type': 'Person', 'urls': ['a', \"\"b's\"\"]}\",\"Who, then?\",Ada\n"
  )
  example = _read_one("simpleqa", _write(tmp_path / "simple_qa_test_set.csv", text))
  assert example.question == "Who, then?" and example.aliases == ("Ada",)
  assert dict(example.extra) == {"topic": "Art", "answer_type": "Person"}


@pytest.mark.parametrize("metadata", ["{'topic': open('x')}", "[1]", "{"])
def test_simpleqa_metadata_is_a_literal_and_never_run(tmp_path, metadata):
  text = f'metadata,problem,answer\n"{metadata}",q,a\n'
  with pytest.raises(UserError, match=r"a\.csv:2: expected a Python dict as 'metadata'"):
    corpora.read("simpleqa", _write(tmp_path / "a.csv", text))


# ---- TruthfulQA


@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_truthfulqa_byte_order_mark_and_joined_answers(tmp_path, mark):
  text = (
    f"{mark}Type,Category,Question,Best Answer,Correct Answers,Incorrect Answers,Source\n"
    'Adversarial,Myths,What happens?,Nothing,"Nothing; It passes,  slowly;","You die; You fall",http://x\n'
  )
  example = _read_one("truthfulqa", _write(tmp_path / "TruthfulQA.csv", text))
  assert example.aliases == ("Nothing", "It passes, slowly")
  assert dict(example.extra) == {"category": "Myths", "incorrect": ("You die", "You fall")}


# ---- all


def test_evaluation_only_corpora_cannot_be_trained_on():
  corpora.check_trainable([Example("1", "nq_open", "q")])
  for name in ("simpleqa", "truthfulqa"):
    with pytest.raises(UserError, match=f"{name} is for evaluation only"):
      corpora.check_trainable([Example("1", "nq_open", "q"), Example("2", name, "q")])


@pytest.mark.parametrize(
  ("name", "path", "questions", "dropped"),
  [
    ("nq_open", "nq_open/NQ-open.dev.jsonl", 3404, {}),
    ("nq_open", "nq_open/NQ-open.train.subset.jsonl", 12475, {}),
    ("nq_open", "nq_open/NQ-open.efficientqa.test.1.1.jsonl", 1622, {}),
    ("webquestions", "webquestions", 3777, {"no aliases": 1}),
    ("triviaqa", "triviaqa", 998, {}),
    ("popqa", "popqa", 841, {}),
    ("popqa", "popqa/popqa_with_paragraphs.json", 841, {}),
    ("popqa", "popqa/flashrag_test_subsample.jsonl", 837, {}),
    ("simpleqa", "simpleqa", 2163, {}),
    ("truthfulqa", "truthfulqa/TruthfulQA_v1_817.csv", 681, {}),
    ("truthfulqa", "truthfulqa/TruthfulQA_2025_790.csv", 660, {}),
  ],
)
def test_public_rows(shared, name, path, questions, dropped):
  examples, left_out = corpora.read(name, shared / path)
  assert (len(examples), left_out) == (questions, dropped)
  assert not any('""' in e.question for e in examples if name == "triviaqa")


def test_public_popqa_files_agree(shared):
  tsv, _ = corpora.read("popqa", shared / "popqa" / "popQA.tsv")
  with_paragraphs, _ = corpora.read("popqa", shared / "popqa" / "popqa_with_paragraphs.json")
  assert [(e.id, e.question, e.aliases, e.extra) for e in tsv] == [
    (e.id, e.question, e.aliases, e.extra) for e in with_paragraphs
  ]


# ---- Several as one


def test_corpora_read_as_one_drop_repeated_questions(tmp_path):
  nq = [{"question": "who is ann", "answer": ["a"]}, {"question": "where", "answer": ["b"]}]
  web = [
    {"qId": "w1", "qText": "Who is Ann?", "answers": ["c"]},
    {"qId": "w2", "qText": "when?", "answers": ["d"]},
    {"qId": "w3", "qText": "which?", "answers": []},
  ]
  first = _write(tmp_path / "nq.jsonl", "\n".join(map(json.dumps, nq)))
  second = _write(tmp_path / "web.json", json.dumps(web))
  examples, dropped = corpora.read("nq_open,webquestions", f"{first},{second}")
  assert [(e.corpus, e.aliases) for e in examples] == [
    ("nq_open", ("a",)),
    ("nq_open", ("b",)),
    ("webquestions", ("d",)),
  ]
  assert dropped == {"repeats an earlier question": 1, "no aliases": 1}
  with pytest.raises(UserError, match="names 2 corpora and its path 1"):
    corpora.read("nq_open,webquestions", first)
