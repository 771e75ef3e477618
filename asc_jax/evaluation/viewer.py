"""Records as one self-contained page on which sentences can be read and compared.

Jinja2 fills a shell with the style, the script and the records as inert JSON; the
script builds the page from them with DOM calls that take text only, so nothing that
a model wrote is ever parsed as HTML, and the page's own policy lets no other
script run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import jinja2
import markupsafe

from asc_jax.evaluation import metrics, tables
from asc_jax.evaluation.records import Record, SentenceRecord, above, is_pseudo
from asc_jax.types import UserError

_TEMPLATES = pathlib.Path(__file__).parent / "templates"


def fill(template: str, **values: Any) -> str:
  """A template of this package with the pages' style, escaping on."""
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_TEMPLATES),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
  )
  environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
  style = markupsafe.Markup((_TEMPLATES / "page.css").read_text())
  return environment.get_template(template).render(style=style, **values)


def state(sentence: SentenceRecord, instrument: str) -> str:
  """What one instrument makes of a sentence: copied comes first, then its verdicts."""
  if sentence["copied"]:
    return "copied"
  score = sentence["scores"].get(instrument)
  if score is None or score["supported"] is None:
    return "unscored"
  if not above(score["supported"], score["threshold"]):
    return "unsupported"
  if score["vacuous"] is not None and above(score["vacuous"], score["threshold"]):
    return "vacuous"
  return "supported"


def _utf16(text: str):
  """Maps Python's offsets into `text` to JavaScript's, which count UTF-16 units."""
  if not text or max(text) < "\U00010000":
    return int
  units = [0]
  for character in text:
    units.append(units[-1] + (2 if character >= "\U00010000" else 1))
  return units.__getitem__


def _answer(record: Record, variant: int, prompt: int, instruments: Sequence[str]) -> dict:
  """An answer as the script reads it: spans in UTF-16 units, a state for each instrument."""
  unit = _utf16(record["answer"])
  passage_unit = [_utf16(p["text"]) for p in record["passages"]]
  return {
    "variant": variant,
    "index": record["answer_index"],
    "text": record["answer"],
    "prompt": prompt,
    "words": record["words"],
    "tokens": record["tokens"],
    "copy": record["copy"],
    "declines": record["declines"],
    "finished": record["finished"],
    "em": record["em"],
    "sampling": record["sampling"],
    "reward": record["reward_instrument"],
    "matches": [
      [
        unit(m["start"]),
        unit(m["end"]),
        m["passage"],
        passage_unit[m["passage"]](m["passage_start"]),
        passage_unit[m["passage"]](m["passage_end"]),
      ]
      for m in record["matches"]
    ],
    "sentences": [
      {
        **{k: s[k] for k in ("copy_share", "refusal", "complete", "credit", "advantage", "scores")},  # type: ignore[literal-required]
        "start": unit(s["start"]),
        "end": unit(s["end"]),
        "states": [state(s, name) for name in instruments],
      }
      for s in record["sentences"]
      if not is_pseudo(record, s)
    ],
  }


def _prompt_pieces(prompt: str, passages: Sequence[tuple[str, str]]) -> list[str | int]:
  """The prompt with each passage's text replaced by its number, since the page has it already."""
  pieces: list[str | int] = []
  for number, (_, text) in enumerate(passages):
    before, found, after = prompt.partition(text)
    if found:
      pieces += [before, number]
      prompt = after
  return [*pieces, prompt]


def _variants(rows: Sequence[Record]) -> dict[tuple[str, int], str]:
  """(run, step) in order of step, with the label that tells them apart."""
  found = sorted({(r["run"], r["step"]) for r in rows}, key=lambda v: (v[1], v[0]))
  runs = {run for run, _ in found}
  if len(runs) == len(found):
    return {(run, step): run for run, step in found}
  return {
    (run, step): f"{run}, step {step}" if len(runs) > 1 else f"step {step}" for run, step in found
  }


def page_data(rows: Sequence[Record]) -> dict[str, Any]:
  """What the page's script reads: questions with their answers, each text once."""
  variants = list(_variants(rows))
  labels = list(_variants(rows).values())
  rewards = dict.fromkeys(r["reward_instrument"] for r in rows)
  instruments = list(dict.fromkeys([*rewards, *(name for r in rows for name in r["instruments"])]))
  questions: dict[tuple, dict] = {}
  for record in rows:
    passages = tuple((p["title"], p["text"]) for p in record["passages"])
    question = questions.setdefault(
      (record["corpus"], record["id"], passages),
      {
        "corpus": record["corpus"],
        "id": record["id"],
        "question": record["question"],
        "answerable": record["answerable"],
        "passages": [{"title": title, "text": text} for title, text in passages],
        "prompts": [],
        "answers": [],
      },
    )
    prompt = _prompt_pieces(record["prompt"], passages)
    if prompt not in question["prompts"]:
      question["prompts"].append(prompt)
    variant = variants.index((record["run"], record["step"]))
    question["answers"].append(
      _answer(record, variant, question["prompts"].index(prompt), instruments)
    )
  for question in questions.values():
    question["answers"].sort(key=lambda a: (a["index"], a["variant"]))
  return {
    "variants": labels,
    "instruments": instruments,
    "questions": list(questions.values()),
  }


def _overview(rows: Sequence[Record]) -> dict[str, Any]:
  """The small table on top: a row for each variant, measured columns by instrument."""
  labels = _variants(rows)
  answers: dict[tuple[str, int], list[Record]] = {key: [] for key in labels}
  for record in rows:
    answers[record["run"], record["step"]].append(record)
  table = metrics.columns(rows)
  summaries = {labels[key]: metrics.summarise(group, table) for key, group in answers.items()}
  groups: dict[str, list[metrics.Column]] = {}
  for column in table:
    if any(s.values[column.name] is not None for s in summaries.values()):
      groups.setdefault(column.instrument, []).append(column)
  hashes = {name: h for s in summaries.values() for name, h in s.instruments.items()}
  return {
    "groups": [
      {
        "name": f"{name} ({hashes.get(name, '')[:12]})" if name else "string rules",
        "columns": [c.name.split(" [")[0] + (" %" if c.percent else "") for c in columns],
      }
      for name, columns in groups.items()
    ],
    "rows": [
      (
        label,
        [[tables.number(s.values[c.name], tables.digits(c)) for c in g] for g in groups.values()],
      )
      for label, s in summaries.items()
    ],
  }


def render(rows: Sequence[Record], title: str) -> str:
  """The page.

  Args:
    rows: records of one or several runs and steps; answers to the same question
      stand side by side.
    title: the page's heading.
  """
  if not rows:
    raise UserError(f"{title}: no records to show; run python -m asc_jax.main first")
  script = (_TEMPLATES / "viewer.js").read_text()
  return fill(
    "viewer.html.j2",
    title=title,
    data=page_data(rows),
    overview=_overview(rows),
    script=markupsafe.Markup(script),
    script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
  )


def write(path: str | os.PathLike, rows: Sequence[Record], title: str) -> None:
  """`render`, into a file."""
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(render(rows, title), encoding="utf-8")
