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
    "sampling": {
      "answers": 1,
      "temperature": 0.0,
      "top_k": 0,
      "top_p": 1.0,
      "max_tokens": 64,
      "seed": 0,
    },
    "matches": [],
    "sentences": placed,
    "reward_instrument": "minilm",
    "instruments": {"minilm": "0f1e2d3c"},
  }
  return {**fields, **changes}


TOPICS = [
  {
    "question": "Why was the Harlow lift bridge rebuilt twice?",
    "passages": [
      (
        "Harlow lift bridge",
        "The first bridge at Harlow opened in 1884 and carried a single railway track. A flood in "
        "1911 undermined the northern pier, and the span was replaced by a wider one two years later.",
      ),
      (
        "The second rebuilding",
        "Heavier locomotives after the war exceeded the load for which the 1913 span had been "
        "designed. In 1952 the railway company ordered a third bridge, made of welded steel.",
      ),
      (
        "",
        "Anglers still use the stone footings of the first bridge, which stand in the shallows.",
      ),
    ],
    "own": [
      ("A flood damaged one of the piers, so the crossing had to be replaced in 1913.", 0.93, 0.08),
      ("Four decades on, trains had simply become too heavy for it.", 0.81, 0.12),
      ("The bridge was rebuilt twice.", 0.88, 0.97),
      ("The second flood of 1952 washed the steel deck away.", 0.11, 0.05),
      ("Both rebuildings were paid for by the county council.", 0.06, 0.04),
    ],
  },
  {
    "question": "How do Baltic herring find their spawning grounds?",
    "passages": [
      (
        "Clupea harengus membras",
        "Baltic herring return each spring to the coastal banks where they hatched. Tagging showed "
        "that four out of five adults spawn within thirty kilometres of their own birthplace.",
      ),
      (
        "Smell and salinity",
        "In tank trials, herring whose nostrils had been blocked swam at random, while untreated fish "
        "followed the less salty of two currents. Light made no difference to either group.",
      ),
    ],
    "own": [
      ("They seem to follow their noses: fish that cannot smell lose their way.", 0.9, 0.21),
      ("Most adults end up close to where they were born.", 0.86, 0.17),
      ("Herring find spawning grounds in the Baltic.", 0.74, 0.95),
      ("Moonlight guides them on the last kilometres.", 0.04, 0.1),
      ("Young fish learn the route from older ones in the shoal.", 0.19, 0.22),
    ],
  },
  {
    "question": "What did the 1968 census of Ostra island count, and who was left out?",
    "passages": [
      (
        "Census",
        "The census of 1968 recorded 2,418 residents on Ostra, living in 611 households. Seasonal "
        "workers at the cannery, about three hundred people, were not recorded.",
      ),
      (
        "Cannery",
        "Workers at the cannery slept in barracks that the enumerators never visited. The cannery "
        "closed in 1974; the barracks are now a youth hostel.",
      ),
    ],
    "own": [
      ("Roughly 2,400 islanders were counted, in a little over 600 homes.", 0.84, 0.09),
      ("Nobody asked the few hundred people who came for the canning season.", 0.77, 0.15),
      ("There was a census on Ostra in 1968.", 0.91, 0.98),
      ("Some 1,300 fishermen were counted twice.", 0.03, 0.02),
      ("Children under five were left out as well.", 0.12, 0.18),
    ],
  },
]
REFUSAL = "The passages do not say who was in charge of it."


def _copied(random, topic):
  """A sentence of a passage, word for word, and where it stands."""
  passage = random.randrange(len(topic["passages"]))
  text = topic["passages"][passage][1]
  parts = [p if p.endswith(".") else p + "." for p in text.split(". ")]
  part = random.choice(parts)
  return part, (passage, text.index(part[:-1]))


def realistic(random, questions, *, run="base", step=0, copying=0.4, group=1, corpus="clapnq"):
  """Answers about invented subjects in which every state of a sentence occurs.

  Args:
    random: a `random.Random`.
    questions: how many; the topics repeat.
    copying: share of sentences lifted from a passage.
    group: answers a question; two or more carry advantages.
  """
  rows = []
  for number in range(questions):
    topic = TOPICS[number % len(TOPICS)]
    for index in range(group):
      items, places = [], []
      for _ in range(random.randint(2, 4)):
        if random.random() < copying:
          text, place = _copied(random, topic)
          pair = (0.97 if random.random() < 0.9 else 0.35, 0.1)
        elif random.random() < 0.07:
          text, place, pair = REFUSAL, None, (0.08, 0.04)
        else:
          (text, *pair), place = random.choice(topic["own"]), None
        fair = pair[0] > 0.5 and pair[1] <= 0.5 and place is None
        other = min(0.99, max(0.01, pair[0] + random.uniform(-0.3, 0.2)))
        items.append(
          sentence(
            text,
            copied=place is not None,
            copy_share=1.0 if place else 0.0,
            refusal=text == REFUSAL,
            credit=float(fair),
            advantage=(1.0 if fair else -1.0) if group > 1 else None,
            scores={"minilm": tuple(pair), "lexical": (other, None)},
          )
        )
        places.append(place)
      row = record(
        f"{corpus}-{number}",
        items,
        run=run,
        step=step,
        corpus=corpus,
        answer_index=index,
        question=topic["question"],
        prompt="<|im_start|>system\nAnswer in your own words.<|im_end|>\n<|im_start|>user\n"
        + "\n\n".join(f"{title}\n{text}" for title, text in topic["passages"])
        + f"\n\n{topic['question']}<|im_end|>\n<|im_start|>assistant\n",
        passages=[{"title": title, "text": text} for title, text in topic["passages"]],
        declines=all(s["refusal"] for s in items),
        answerable=number % 3 != 2,
        em=round(random.random(), 2) if corpus == "asqa" else None,
        finished=random.random() > 0.1,
        instruments={"minilm": "5f0c29aa61d1", "lexical": "none"},
      )
      row["sampling"] = {**row["sampling"], "answers": group}
      row["matches"] = [
        {
          "start": s["start"],
          "end": s["end"] - 1,
          "passage": place[0],
          "passage_start": place[1],
          "passage_end": place[1] + s["end"] - 1 - s["start"],
        }
        for s, place in zip(row["sentences"], places, strict=True)
        if place
      ]
      copied = sum(len(i["text"].split()) for i, p in zip(items, places, strict=True) if p)
      row["copy"] = copied / row["words"]
      rows.append(row)
  return rows
