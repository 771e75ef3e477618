"""Speed of CorVer's look-ups, and what a reward costs against a neural checker, on one core.

  python benchmarks/corver_index.py CORPUS [--queries=2000] [--sentences=64] [--model=smollm2]

Indexes CORPUS (a file of documents, such as .jsonl with `text`), draws distinct queries
from its own sentences as the reward would, and prints
  * queries a second with the cache off and the index warm, by the clock and by the
    processor time used (the same on an idle machine);
  * how often infini-gram's own count differs, and by how much at most;
  * milliseconds of processor time a sentence of look-up alone, of rules and look-up, and of triplets that
    `--model` writes and look-up, each against `--model` as a checker that reads the
    sentence with its own document: the same sentences, after compilation.
`--sentences=0` leaves the models out.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from typing import Any

from asc_jax.corver import build, index, triplets, verify
from asc_jax.text import sentences

Drawn = dict[tuple[str, ...], tuple[str, str]]  # query to its sentence and document


def draw(corpus: str, wanted: int) -> Drawn:
  """Distinct queries of the corpus's sentences, with these and their documents."""
  texts = list(build.documents([corpus]))
  random.Random(0).shuffle(texts)
  drawn: Drawn = {}
  for text in texts:
    for start, end in sentences.split(text):
      facts = [t for t in triplets.rule_triplets(text[start:end]) if triplets.is_valid(t)]
      query = triplets.query(facts[0]) if facts else None
      if query:
        drawn.setdefault(tuple(sorted(query)), (text[start:end], text))
    if len(drawn) >= wanted:
      break
  return drawn


def timed(call: Callable[[], Any], count: int) -> tuple[float, float]:
  """Milliseconds one of `count` things takes, by the clock and by the processor time used."""
  start, cpu = time.perf_counter(), time.process_time()
  call()
  seconds, used = time.perf_counter() - start, time.process_time() - cpu
  return 1000 * seconds / count, 1000 * used / count


def compare_counts(folder: str, opened: index.Index, queries: list[tuple[str, ...]]) -> None:
  """Prints how far infini-gram's own counts are from ours."""
  from infini_gram.engine import InfiniGramEngine

  with build.plain_path(folder) as plain:
    engine: Any = InfiniGramEngine(index_dir=[plain], eos_token_id=0)
  gaps = []
  for query, own in zip(queries, opened.counts(queries), strict=True):
    cnf = [[list(ids) for ids in opened.terms(word)] for word in query]
    found = engine.count_cnf(cnf=cnf, max_clause_freq=500_000, max_diff_tokens=1000)
    gaps.append(found["count"] - own.occurrences)
  print(
    f"infini-gram's own count differs for {sum(map(bool, gaps))} of {len(gaps):,} queries "
    f"({min(gaps)} to {max(gaps)})"
  )


def cost_of_models(path: str, drawn: Drawn, opened: index.Index) -> tuple[float, float]:
  """Processor milliseconds a sentence of generated triplets with their look-up, and of the checker."""
  from asc_jax import checkers
  from asc_jax import config as config_lib
  from asc_jax.rl import extractor

  config = config_lib.default_config().corver
  config.extractor = path
  generate = extractor.load(config, dtype="float32", mesh=None)
  levels = verify.parse_levels("four_level")
  generated = verify.CorpusVerifier(opened.counts, triplets.generated(generate), levels)
  judge = checkers.load("judge", path)
  asked, documents = zip(*drawn.values(), strict=True)
  found = sum(verdict.triplet is not None for verdict in generated(asked))  # and compiles
  print(f"{path} wrote a triplet to look up for {found} of {len(asked)} sentences", flush=True)
  judge.score(documents, asked)  # compiles
  return (
    timed(lambda: generated(asked), len(asked))[1],
    timed(lambda: judge.score(documents, asked), len(asked))[1],
  )


def main(corpus: str, queries: int, sentences: int, model: str) -> None:
  os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
  drawn = draw(corpus, queries)
  asked = list(dict.fromkeys(sentence for sentence, _ in drawn.values()))
  with tempfile.TemporaryDirectory() as folder:
    start = time.perf_counter()
    made = build.build([corpus], folder)
    print(f"built {made['tokens']:,} tokens in {time.perf_counter() - start:.1f} s")
    opened = index.open_index(folder, cache_size=0)
    opened.counts(list(drawn))  # warms the page cache
    lookup, used = timed(lambda: opened.counts(list(drawn)), len(drawn))
    print(
      f"{len(drawn):,} distinct queries, cache off, one core: {1000 / lookup:,.0f} a second by "
      f"the clock, {1000 / used:,.0f} by the processor time used"
    )
    compare_counts(folder, opened, list(drawn))
    levels = verify.parse_levels("four_level")
    ruled = verify.CorpusVerifier(opened.counts, triplets.by_rules, levels)
    costs = {
      "look-up alone": used,
      "rules and look-up": timed(lambda: ruled(asked), len(asked))[1],
    }
    checker = None
    if sentences:
      few = dict(list(drawn.items())[:sentences])
      costs["generated triplets and look-up"], checker = cost_of_models(model, few, opened)
  print(f"\n{'':<32}{'ms a sentence':>14}" + ("" if checker is None else f"{'checker / it':>14}"))
  for name, cost in costs.items():
    print(f"{name:<32}{cost:>14.2f}" + ("" if checker is None else f"{checker / cost:>14.1f}"))
  if checker is not None:
    print(f"{'decoder checker, ' + model:<32}{checker:>14.2f}{1:>14.1f}")


if __name__ == "__main__":
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("corpus")
  parser.add_argument("--queries", type=int, default=2000, help="distinct queries drawn")
  parser.add_argument("--sentences", type=int, default=64, help="read by the models")
  parser.add_argument("--model", default="smollm2", help="extractor and checker")
  main(**vars(parser.parse_args()))
