"""Speed of CorVer's look-ups and of its rules, on one core.

  python benchmarks/corver_index.py CORPUS [QUERIES]

Indexes CORPUS (a file of documents, such as .jsonl with `text`), draws distinct queries
from its own sentences as the reward would, and prints
  * queries a second with the cache off and the index warm, by the clock and by the
    processor time used (the same on an idle machine);
  * milliseconds a sentence of look-up alone, and of rules and look-up;
  * how often infini-gram's own count differs, and by how much at most.
"""

import os
import random
import sys
import tempfile
import time

from infini_gram.engine import InfiniGramEngine

from asc_jax.corver import build, index, triplets, verify
from asc_jax.text import sentences


def main(corpus: str, wanted: int = 2000) -> None:
  os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
  texts = list(build.documents([corpus]))
  random.Random(0).shuffle(texts)
  drawn: dict[tuple[str, ...], str] = {}
  for text in texts:
    for start, end in sentences.split(text):
      facts = [t for t in triplets.rule_triplets(text[start:end]) if triplets.is_valid(t)]
      query = triplets.query(facts[0]) if facts else None
      if query:
        drawn.setdefault(tuple(sorted(query)), text[start:end])
    if len(drawn) >= wanted:
      break
  queries, asked = list(drawn), list(dict.fromkeys(drawn.values()))
  with tempfile.TemporaryDirectory() as folder:
    start = time.perf_counter()
    made = build.build([corpus], folder)
    print(f"built {made['tokens']:,} tokens in {time.perf_counter() - start:.1f} s")
    opened = index.open_index(folder, cache_size=0)
    opened.counts(queries)  # warms the page cache
    start, cpu = time.perf_counter(), time.process_time()
    counts = opened.counts(queries)
    per_query = (time.perf_counter() - start) / len(queries)
    own_time = (time.process_time() - cpu) / len(queries)
    verifier = verify.CorpusVerifier(
      opened.counts, triplets.by_rules, verify.parse_levels("four_level")
    )
    start = time.perf_counter()
    verifier(asked)
    per_sentence = (time.perf_counter() - start) / len(asked)
    with build.plain_path(folder) as plain:
      engine = InfiniGramEngine(index_dir=[plain], eos_token_id=0)
    gaps = []
    for query, own in zip(queries, counts, strict=True):
      cnf = [[list(ids) for ids in opened.terms(word)] for word in query]
      found = engine.count_cnf(cnf=cnf, max_clause_freq=500_000, max_diff_tokens=1000)
      gaps.append(found["count"] - own.occurrences)
  print(
    f"{len(queries):,} distinct queries, cache off, one core: {1 / per_query:,.0f} a second by "
    f"the clock, {1 / own_time:,.0f} by the processor time used"
  )
  print(f"look-up alone: {1000 * per_query:.2f} ms a query")
  print(f"rules and look-up: {1000 * per_sentence:.2f} ms a sentence, {len(asked):,} sentences")
  differing = [gap for gap in gaps if gap]
  print(
    f"infini-gram's own count differs for {len(differing)} of {len(gaps):,} queries "
    f"({min(gaps)} to {max(gaps)})"
  )


if __name__ == "__main__":
  main(sys.argv[1], *map(int, sys.argv[2:]))
