"""Counts against a brute-force counter and against infini-gram's own engine."""

import json
import random
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from infini_gram.engine import InfiniGramEngine

from asc_jax.corver import build, index, triplets
from asc_jax.types import UserError

THREE_LINES = (
  "Curie won the Nobel Prize.\nThe Nobel Prize went to Curie.\nthe nobel prize (curie)\n"
)


@pytest.fixture(scope="module")
def three_lines(tmp_path_factory):
  folder = tmp_path_factory.mktemp("three")
  (folder / "lines.txt").write_text(THREE_LINES)
  build.build([str(folder / "lines.txt")], folder / "index")
  return folder / "index"


@pytest.mark.parametrize(("fold_case", "expected"), [(False, 2), (True, 3)])
def test_counts_depend_on_case_and_on_whether_the_word_begins_a_text(
  three_lines, fold_case, expected
):
  opened = index.open_index(three_lines, fold_case=fold_case)
  query = triplets.query_words("Curie", "Nobel Prize")
  assert opened.count(*query) == index.Count(expected, False)
  assert opened.count(*reversed(query), "Curie").occurrences == expected


def test_no_match_spans_two_lines(three_lines):
  opened = index.open_index(three_lines)
  assert opened.count("won", "went").occurrences == 0
  assert opened.count("won", "Prize").occurrences == 1


def test_a_word_that_the_index_lacks(three_lines):
  opened = index.open_index(three_lines, fold_case=True)
  assert opened.count("Curie", "Lovelace") == index.Count(0, False)
  assert opened.count("...") == index.Count(0, False)


def brute_force(documents, query, window):
  """Occurrences of the rarest word with every other one near, by plain loops.

  For two words: with more, the words joined before move the window.
  """
  totals = {word: sum(document.count(word) for document in documents) for word in query}
  rarest, *others = sorted(query, key=lambda word: (totals[word], word))
  found = 0
  for document in documents:
    if rarest not in document:
      continue
    for place, word in enumerate(document):
      if word == rarest:
        near = document[max(place - window, 0) : place + window + 1]
        found += all(other in near for other in others)
  return found


@pytest.fixture(scope="module")
def wikipedia(shared, tmp_path_factory):
  source = shared / "wikipedia" / "2wikimultihopqa_corpus.json"
  folder = tmp_path_factory.mktemp("wikipedia") / "index"
  build.build([str(source)], folder)
  rows = json.loads(source.read_text())
  return folder, [re.findall(r"[^\W_]+", f"{row['title']}\n{row['text']}") for row in rows]


def test_counts_of_wikipedia_equal_brute_force(wikipedia):
  folder, documents = wikipedia
  rng = random.Random(7)
  queries = []
  while len(queries) < 300:
    document = rng.choice(documents)
    names = sorted({w for w in document if w[0].isupper() and w.lower() not in triplets.STOP_WORDS})
    if len(names) >= 4:
      query = rng.sample(names, rng.choice((2, 2, 3)))
      if rng.random() < 0.3:  # words that need not meet
        query[0] = rng.choice(rng.choice(documents))
      queries.append(tuple(query))
  holding = Counter(word for d in documents for word in set(d))
  assert max(holding[word] for query in queries for word in query) > 500  # frequent ones too
  # No document is as long as the window: one that holds all words matches throughout.
  assert max(map(len, documents)) < 1100
  bags = [Counter(document) for document in documents]
  totals = Counter(word for document in documents for word in document)
  expected = []
  for query in queries:
    rarest = min(query, key=lambda word: (totals[word], word))
    expected.append(sum(bag[rarest] for bag in bags if all(word in bag for word in query)))
  found = index.open_index(folder, window=1100).counts(queries)
  assert [c.occurrences for c in found] == expected
  assert not any(c.approximate for c in found)
  assert expected.count(0) > 20 and max(expected) > 20


def engine_count(folder, terms, query, window):
  """infini-gram's own count."""
  with build.plain_path(folder) as plain:
    engine = InfiniGramEngine(index_dir=[plain], eos_token_id=0)
  cnf = [[list(ids) for ids in terms(word)] for word in query]
  return engine.count_cnf(cnf=cnf, max_clause_freq=10**6, max_diff_tokens=window)["count"]


LETTERS = "abcdefgh"


def long_documents(seed, documents=6, words=120):
  rng = random.Random(seed)
  # Filler makes the letters sparse, so that a window of a dozen words decides.
  return [
    [rng.choice(LETTERS) if rng.random() < 0.12 else "x" for _ in range(words)]
    for _ in range(documents)
  ]


def indexed(folder, documents, **settings):
  (folder / "d.txt").write_text("".join(" ".join(d) + "\n" for d in documents))
  build.build([str(folder / "d.txt")], folder / "index")
  return index.open_index(folder / "index", **settings)


@pytest.mark.parametrize("window", [1, 5, 12])
def test_the_window_is_counted_in_tokens(tmp_path, window):
  documents = long_documents(window)
  opened = indexed(tmp_path, documents, window=window)
  pairs = [(a, b) for a in LETTERS for b in LETTERS if a < b]
  expected = [brute_force(documents, pair, window) for pair in pairs]
  assert [c.occurrences for c in opened.counts(pairs)] == expected
  assert 0 < sum(expected) < sum(brute_force(documents, pair, 1000) for pair in pairs)


def test_documents_apart_equal_the_engine_on_documents_padded_apart(tmp_path):
  """Three words and more: the engine is right where no window reaches the next document."""
  window = 9
  documents = long_documents(3)
  opened = indexed(tmp_path, documents, window=window)
  padded = tmp_path / "padded"
  padded.mkdir()
  filler = [["x"] * (window + 1)]
  apart = indexed(padded, [part for d in documents for part in (d, *filler)], window=window)
  totals = Counter(word for d in documents for word in d)
  rng = random.Random(11)
  compared = 0
  for _ in range(150):
    query = rng.sample(LETTERS, rng.choice((2, 3)))
    if len({totals[word] for word in query}) < len(query):
      continue  # the engine takes any of the rarest
    compared += 1
    engine = engine_count(padded / "index", apart.terms, query, window)
    assert opened.count(*query).occurrences == apart.count(*query).occurrences == engine
  assert compared > 60


def test_the_engine_alone_undercounts_at_a_border(tmp_path):
  opened = indexed(tmp_path, [["b", "x"], ["a", "x", "b"]], window=5)
  assert engine_count(tmp_path / "index", opened.terms, "ab", 5) == 0
  assert opened.count("a", "b").occurrences == 1


def test_a_frequent_word_is_sampled_and_said_to_be(tmp_path):
  documents = [["a", "b"] * 20] * 50 + [["c", "a"]] * 7
  opened = indexed(tmp_path, documents, max_clause_freq=100)
  sampled = opened.count("a", "b")
  assert sampled.approximate
  assert abs(sampled.occurrences - 1000) < 50
  assert opened.count("c", "b") == index.Count(0, True)
  assert index.open_index(tmp_path / "index").count("a", "b") == index.Count(1000, False)
  assert index.open_index(tmp_path / "index").count("a", "c") == index.Count(7, False)


def test_threads_and_cache_change_nothing(wikipedia):
  folder, documents = wikipedia
  queries = [tuple(d[:2]) for d in documents[:40]] * 3
  plain = index.open_index(folder, cache_size=0)
  threaded = index.open_index(folder, threads=4, cache_size=30)
  assert plain.counts(queries) == threaded.counts(queries) == threaded.counts(queries)
  assert plain._lookup.cache_info().hits == 0
  assert threaded._lookup.cache_info().currsize == 30


def foreign_index(folder, documents, separator, version):
  """An index of subword tokens, written as infini-gram's own indexer writes it."""
  folder.mkdir()
  size = 0
  with open(folder / "tokenized.0", "wb") as tokens, open(folder / "offset.0", "wb") as offsets:
    for ids in documents:
      content = np.array([separator, *ids[:: 1 if version == 4 else -1]], np.uint16).tobytes()
      tokens.write(content)
      offsets.write(np.uint64(size).tobytes())
      size += len(content)
  flags = f"--token_dtype u16 --shards 1 --cpus 1 --mem 1 --ulimit 1024 --version {version}"
  paths = [f"--{name}={folder}" for name in ("data_dir", "save_dir", "temp_dir")]
  command = [sys.executable, "-m", "infini_gram.indexing", *flags.split(), *paths]
  subprocess.run(command, check=True, capture_output=True)
  return folder


@pytest.fixture(scope="module")
def subwords():
  """A byte-level BPE in which a word is written otherwise at the start of a line."""
  import tokenizers
  import transformers

  model = tokenizers.Tokenizer(tokenizers.models.BPE())
  model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
  model.decoder = tokenizers.decoders.ByteLevel()
  trainer = tokenizers.trainers.BpeTrainer(
    vocab_size=330, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
  )
  model.train_from_iterator(THREE_LINES.splitlines() * 5, trainer)
  return transformers.PreTrainedTokenizerFast(tokenizer_object=model)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(("fold_case", "expected"), [(False, 2), (True, 3)])
def test_an_index_of_subword_tokens(tmp_path, subwords, version, fold_case, expected):
  lines = [subwords.encode(line) for line in THREE_LINES.splitlines()]
  assert lines[0][:2] != lines[1][-2:]  # Curie at the start and at the end
  folder = foreign_index(tmp_path / "foreign", lines, 0xFFFF, version)
  opened = index.open_index(folder, tokenizer=subwords, version=version, fold_case=fold_case)
  assert opened.count("Curie", "Nobel", "Prize") == index.Count(expected, False)
  subwords.save_pretrained(tmp_path / "tokenizer")
  named = index.open_index(
    folder, tokenizer=str(tmp_path / "tokenizer"), version=version, fold_case=fold_case
  )
  assert named.count("Curie", "Nobel", "Prize") == index.Count(expected, False)
  with pytest.raises(UserError, match="--tokenizer"):
    index.open_index(folder)


def test_a_folder_without_an_index_is_named(tmp_path, three_lines, subwords):
  with pytest.raises(UserError, match=f"{tmp_path} holds no infini-gram index"):
    index.open_index(tmp_path)
  with pytest.raises(UserError, match="without a tokenizer"):
    index.open_index(three_lines, tokenizer=subwords)
