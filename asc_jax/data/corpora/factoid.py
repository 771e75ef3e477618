"""Short-answer questions without passages: any alias is a right answer.

| corpus | files | what is peculiar |
|---|---|---|
| nq_open | `NQ-open.*.jsonl` | `{question, answer: [...]}` |
| webquestions | `{qId, qText, answers}`, or Stanford's `{utterance, targetValue}` | answers as a lisp list; a few are web addresses |
| triviaqa | the official `{"Data": [...]}`, or flat rows with the aliases in one list | questions still quoted as in a CSV file |
| popqa | `popQA.tsv`, or the same columns as JSON; rows with `golden_answers` | lists are JSON inside a string |
| simpleqa | `simple_qa_test_set.csv` | `metadata` is a Python literal; evaluation only |
| truthfulqa | `TruthfulQA.csv` | byte-order mark; answers joined by "; "; evaluation only |
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from asc_jax.data import files
from asc_jax.types import Example, Passage, UserError

Path = str | pathlib.Path | None


def read_nq_open(path: Path, dropped: Counter[str]) -> Iterator[Example]:
  """Reads NQ-Open or EfficientQA (whose judged predictions are left aside)."""
  del dropped
  for file in files.find(path, "*.jsonl"):
    for row in files.rows(file):
      yield _example("nq_open", None, row.take("question", str), row.strings("answer"))


def read_webquestions(path: Path, dropped: Counter[str]) -> Iterator[Example]:
  """Reads WebQuestions in the flat or in Stanford's own layout."""
  del dropped
  for file in files.find(path, "*.json"):
    for row in files.rows(file):
      if "utterance" in row.value:
        id_, question = None, row.take("utterance", str)
        answers = _lisp_descriptions(row)
      else:
        id_, question = row.take("qId", str), row.take("qText", str)
        answers = row.strings("answers")
      # An address stands where the annotator only named the page.
      yield _example(
        "webquestions", id_, question, [a for a in answers if not re.match(r"https?://", a)]
      )


def _lisp_descriptions(row: files.Row) -> list[str]:
  r"""`(list (description "New York City") (description Paris))` -> both names."""
  value = row.take("targetValue", str)
  found = re.findall(r'\(description\s+("(?:[^"\\]|\\.)*"|[^\s()"]+)\s*\)', value)
  if not re.match(r"\s*\(list\b", value) or len(found) != value.count("(description"):
    raise UserError(
      f"{row.where}: expected a lisp list of descriptions as 'targetValue', found {value[:60]!r}"
    )
  return [re.sub(r"\\(.)", r"\1", f[1:-1]) if f.startswith('"') else f for f in found]


def read_triviaqa(path: Path, dropped: Counter[str]) -> Iterator[Example]:
  """Reads TriviaQA in its official layout or with flat aliases."""
  del dropped
  for file in files.find(path, "*.json", "*.jsonl"):
    rows = files.rows(file)
    if len(rows) == 1 and "Data" in rows[0].value:
      yield from map(_official_triviaqa, rows[0].objects("Data"))
      continue
    for row in rows:
      if "golden_answers" in row.value:
        id_, answers = row.take("id", str), row.strings("golden_answers")
      else:
        id_, answers = row.take("qid", str), [row.take("gold_answer", str), *row.strings("aliases")]
      yield _example("triviaqa", id_, _unquoted(row.take("question", str)), answers)


def _official_triviaqa(row: files.Row) -> Example:
  answers: list[str] = []
  if "Answer" in row.value:  # the official test sets have none
    answer = files.Row(f"{row.where}, Answer", row.take("Answer", dict))
    answers = [
      answer.take("Value", str),
      *answer.strings("Aliases"),
      *answer.strings("NormalizedAliases"),
    ]
  return _example("triviaqa", row.take("QuestionId", str), row.take("Question", str), answers)


def _unquoted(question: str) -> str:
  """Undoes a CSV file's quoting that was left on the question.

  >>> _unquoted('"Who said ""God is dead""?"')
  'Who said "God is dead"?'
  """
  quoted = re.fullmatch(r'"((?:[^"]|"")*)"', question)
  return quoted[1].replace('""', '"') if quoted and '""' in quoted[1] else question


def read_popqa(path: Path, dropped: Counter[str]) -> Iterator[Example]:
  """Reads PopQA; `extra` holds the subject's popularity and the relation.

  Where rows have `paragraphs` (page openings), these become passages.
  """
  del dropped
  for file in files.find(path, "*.tsv"):
    if file.suffix == ".tsv":
      rows = files.table(
        file, ("id", "question", "possible_answers", "s_pop", "prop"), delimiter="\t"
      )
    else:
      rows = files.rows(file)
    for row in rows:
      if "golden_answers" in row.value:
        answers = row.strings("golden_answers")
        columns = files.Row(f"{row.where}, metadata", row.take("metadata", dict))
      else:
        answers = _json_strings(row, "possible_answers")
        columns = row
      paragraphs = row.objects("paragraphs") if "paragraphs" in row.value else []
      passages = tuple(Passage(p.take("title", str), p.take("text", str)) for p in paragraphs)
      extra = (("s_pop", _integer(columns, "s_pop")), ("prop", columns.take("prop", str)))
      yield _example(
        "popqa", str(row.take("id", str, int)), row.take("question", str), answers, extra, passages
      )


def _json_strings(row: files.Row, name: str) -> list[str]:
  text = row.take(name, str)
  try:
    value = json.loads(text)
  except json.JSONDecodeError:
    raise UserError(
      f"{row.where}: expected a JSON list in the string {name!r}, found {text[:60]!r}"
    ) from None
  return files.Row(row.where, {name: value}).strings(name)


def _integer(row: files.Row, name: str) -> int:
  value = row.take(name, int, str)
  try:
    return int(value)
  except ValueError:
    raise UserError(f"{row.where}: expected an integer as {name!r}, found {value!r}") from None


def read_simpleqa(path: Path, dropped: Counter[str]) -> Iterator[Example]:
  """Reads SimpleQA; `extra` holds the topic and the type of the answer."""
  del dropped
  for file in files.find(path, "*.csv"):
    for row in files.table(file, ("metadata", "problem", "answer")):
      try:
        metadata = ast.literal_eval(row.value["metadata"])
      except (ValueError, SyntaxError):
        metadata = None
      if not isinstance(metadata, dict):
        raise UserError(
          f"{row.where}: expected a Python dict as 'metadata', found {row.value['metadata'][:60]!r}"
        )
      extra = tuple((k, str(metadata[k])) for k in ("topic", "answer_type") if k in metadata)
      yield _example("simpleqa", None, row.value["problem"], [row.value["answer"]], extra)


def read_truthfulqa(path: Path, dropped: Counter[str]) -> Iterator[Example]:
  """Reads TruthfulQA; `extra` holds the category and the incorrect answers."""
  del dropped
  names = ("Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers")
  for file in files.find(path, "*.csv"):
    for row in files.table(file, names):
      category, question, best, correct, incorrect = (row.value[n] for n in names)
      extra = (("category", category), ("incorrect", tuple(_joined(incorrect))))
      yield _example("truthfulqa", None, question, [best, *_joined(correct)], extra)


def _joined(text: str) -> list[str]:
  """ "Yes; No,  never;" -> its answers, with single spaces and without empty ones."""
  answers = (" ".join(part.split()) for part in text.split(";"))
  return [a for a in answers if a]


def _example(
  corpus: str, id_: str | None, question: str, answers: Iterable[str], extra=(), passages=()
) -> Example:
  question = question.strip()
  aliases = tuple(dict.fromkeys(a.strip() for a in answers if a.strip()))
  return Example(
    id=id_ or files.stable_id(question),
    corpus=corpus,
    question=question,
    passages=passages,
    aliases=aliases,
    extra=extra,
  )
