"""Records for the tests of this folder: a plain builder and a realistic random corpus."""

from __future__ import annotations


def sentence(text, **changes):
  """A sentence to be placed by `record`: its text and the fields that matter."""
  scores = {
    name: {"supported": pair[0], "vacuous": pair[1], "threshold": 0.5}
    for name, pair in changes.pop("scores", {}).items()
  }
  fields = {
    "copied": False,
    "copy_share": 0.0,
    "refusal": False,
    "complete": True,
    "credit": None,
    "advantage": None,
  }
  return {"text": text, **fields, **changes, "scores": scores}


def record(id, sentences, **changes):
  """A whole record whose answer is the sentences joined by spaces."""
  answer, placed = "", []
  for item in sentences:
    start = len(answer) + (1 if answer else 0)
    answer += (" " if answer else "") + item["text"]
    placed.append({"start": start, "end": len(answer), **{k: item[k] for k in item if k != "text"}})
  fields = {
    "run": "base",
    "method": "asc",
    "step": 0,
    "corpus": "asqa",
    "id": id,
    "question": f"Question {id}?",
    "prompt": f"<|im_start|>user\nQuestion {id}?<|im_end|>\n<|im_start|>assistant\n",
    "passages": [{"title": "Bridge", "text": "The old bridge opened in 1932 to traffic."}],
    "answer_index": 0,
    "answer": answer,
    "tokens": len(answer) // 4 + 1,
    "finished": True,
    "words": len(answer.split()),
    "copy": 0.0,
    "declines": False,
    "em": None,
    "answerable": None,
    "sampling": {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "max_tokens": 64, "seed": 0},
    "matches": [],
    "sentences": placed,
    "reward_instrument": "minilm",
    "instruments": {"minilm": "0f1e2d3c"},
  }
  return {**fields, **changes}
