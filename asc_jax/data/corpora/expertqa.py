"""ExpertQA (chaitanyamalaviya/ExpertQA): questions that experts asked and judged.

`lfqa/{rand,domain}_*.jsonl`, one object a line: `{question, answers: {system:
{answer_string, claims: [{claim_string, evidence, ...}], revised_answer_string}},
metadata}`. Passages exist only inside claims, each as "[n] url", an empty line and the
text; systems that retrieved nothing give "[n] url" alone. A question's passages are
those of all its claims and systems, once each. `lfqa/*.json` are JSON lines, too, and
hold no passages at all.
"""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Iterator

from asc_jax.data import files
from asc_jax.types import Example, Passage

_EVIDENCE = re.compile(r"\s*\[\d+\]\s+(\S+)\s*(.*)", re.DOTALL)


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads a file of either layout, or a folder's files with passages."""
  del dropped
  for file in files.find(path, "*.jsonl"):
    yield from map(_example, files.rows(file))


def _example(row: files.Row) -> Example:
  question = row.take("question", str).strip()
  passages: list[Passage] = []
  answers: list[str | None] = []
  if "answers" in row.value:
    systems = files.Row(f"{row.where}, answers", row.take("answers", dict))
    for name in systems.value:
      system = files.Row(f"{systems.where}[{name}]", systems.take(name, dict))
      answers.append(system.take("revised_answer_string", str, type(None)))
      for claim in system.objects("claims"):
        passages += map(_passage, claim.strings("evidence"))
  else:
    answers.append(row.take("answer", str, type(None)))
  return Example(
    id=files.stable_id(question),
    corpus="expertqa",
    question=question,
    passages=tuple(dict.fromkeys(p for p in passages if p.text)),
    answers=tuple(dict.fromkeys(a.strip() for a in answers if a and a.strip())),
  )


def _passage(evidence: str) -> Passage:
  """ "[2] https://…\\n\\ntext" -> the text under its address; "" if there is no text."""
  match = _EVIDENCE.fullmatch(evidence)
  return Passage(match[1], match[2].strip()) if match else Passage("", evidence.strip())
