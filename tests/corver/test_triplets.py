"""Extraction by rules, what models write, and the words to look up."""

import json

import pytest

from asc_jax.corver import triplets
from asc_jax.corver.triplets import Triplet

NILE = Triplet("Nile", "flows through", "Egypt")
SPEKE = Triplet("Nile", "explored by", "John Speke")


@pytest.mark.parametrize(
  ("output", "expected"),
  [
    ('[["Nile", "flows through", "Egypt"], ["Nile", "explored by", "John Speke"]]', [NILE, SPEKE]),
    ('entities:\n[["Nile", "flows through", "Egypt"]]\n', [NILE]),
    ('Here they are [1]:\n```json\n[["Nile", "flows through", "Egypt"],]\n```', [NILE]),
    ('["Nile", "flows through", "Egypt"]', [NILE]),
    ("[['Nile', 'flows through', 'Egypt']]", [NILE]),
    ("[[“Nile”, “flows through”, “Egypt”]]", [NILE]),
    ("[[Nile, flows through, Egypt]]", [NILE]),
    ('[["Nile", "flows through", "Egypt"], ["Nile", "explored by", "Joh', [NILE]),
    ('[{"head": "Nile", "relation": "flows through", "tail": "Egypt"}]', [NILE]),
    ('{"subject": "Nile", "predicate": "flows through", "object": "Egypt"}', [NILE]),
    ('[["Who [Band]", "from", "U.K., Europe"]]', [Triplet("Who [Band]", "from", "U.K., Europe")]),
    ("[['Simon's dog', 'is', 'Rex']]", [Triplet("Simon's dog", "is", "Rex")]),
    ('[["He said \\"no\\"", "in", 1932]]', [Triplet('He said "no"', "in", "1932")]),
    ("[[Rajiv, born in, Mumbai, India]]", [Triplet("Rajiv", "born in", "Mumbai, India")]),
    ('[["Nile", "source"]]', []),  # a question's answer in the extractor's format
    ('[{"head": "Nile", "tail": "Egypt"}]', []),
    ("[]", []),
    ("I see no fact here.", []),
    ("", []),
  ],
)
def test_what_a_model_writes_is_read(output, expected):
  assert triplets.parse(output) == expected


@pytest.mark.parametrize(
  ("sentence", "expected"),
  [
    ("Marie Curie was born in Warsaw.", [("Marie Curie", "was born in", "Warsaw")]),
    (
      "The Congress of the United States met in New York in 1789, under J. R. Adams.",
      [
        ("Congress of the United States", "met in", "New York"),
        ("Congress of the United States", "in", "1789"),
        ("Congress of the United States", "under", "J. R. Adams"),
      ],
    ),
    (
      "Jean-Luc Picard's ship is the Enterprise.",
      [("Jean-Luc Picard", "ship is the", "Enterprise")],
    ),
    (
      "“The Hobbit” was written by J.R.R. Tolkien.",
      [("Hobbit", "was written by", "J.R.R. Tolkien")],
    ),
    (
      "Photosynthesis converts light energy into chemical energy.",
      [
        ("Photosynthesis", "converts", "light energy"),
        ("Photosynthesis", "into", "chemical energy"),
      ],
    ),
    ("Yes, Paris, Rome and Oslo.", [("Paris", "", "Rome"), ("Paris", "and", "Oslo")]),
    ("In Paris she studied physics.", [("Paris", "she studied", "physics")]),
    ("She worked in Paris.", []),
    ("It is hard to say without sources.", []),
    ("Lisbon is in Portugal, and Lisbon is old.", [("Lisbon", "is in", "Portugal")]),
    ("It was.", []),
    ("Warsaw.", []),
    ("", []),
  ],
)
def test_rules(sentence, expected):
  assert triplets.rule_triplets(sentence) == [Triplet(*parts) for parts in expected]


def test_rules_write_what_an_extractor_writes():
  """Through the format of the fine-tuned extractor and back: the same records."""
  sentences = ["Marie Curie was born in Warsaw.", "It was.", 'Ada read "Faust" in Köln.']
  found = triplets.by_rules(sentences)
  written = [triplets.to_json(t) for t in found]
  assert all(
    isinstance(row, list) and len(row) == 3 for text in written for row in json.loads(text)
  )
  assert [triplets.parse(text) for text in written] == found
  assert [len(t) for t in found] == [1, 0, 2]


def test_a_model_is_asked_once_a_distinct_sentence_after_a_shared_prefix():
  asked = []

  def generate(prompts):
    asked.append(prompts)
    return [f'[["head {i}", "r", "tail"]]' for i in range(len(prompts))]

  found = triplets.generated(generate)(["One.", "Two.", "One."])
  assert [t[0].head for t in found] == ["head 0", "head 1", "head 0"]
  (prompts,) = asked
  shared = triplets.INSTRUCTION
  assert [p.startswith(shared) for p in prompts] == [True, True]
  assert [p[len(shared) :].split("\n")[1] for p in prompts] == ["Sentence: One.", "Sentence: Two."]


def test_a_published_prompt_holds_its_own_place_for_the_sentence():
  assert triplets.extractor_prompt("A {} b.", "Read:{}\nentities:\n") == "Read:A {} b.\nentities:\n"


def test_the_packaged_prompt_shows_its_own_format():
  example = triplets.INSTRUCTION.split("Triplets: ")[1].split("\n")[0]
  assert triplets.parse(example) == [NILE, SPEKE]


@pytest.mark.parametrize(
  ("entity", "expected"),
  [
    ("the First Congress of the United States", ["First", "Congress", "United", "States"]),
    ("theory of general relativity", ["theory", "general", "relativity"]),
    ("an ox in it", []),
    ("1789", ["1789"]),
    ("Curie's (Marie) “Prize”,", ["Curie", "Marie", "Prize"]),
    ("The Who", []),
    ("Mumbai, Maharashtra", ["Mumbai", "Maharashtra"]),
  ],
)
def test_content_words(entity, expected):
  assert triplets.content_words(entity) == expected


def test_query_words_are_distinct_whatever_their_case():
  triplet = Triplet("Nobel Prize", "won by", "nobel prize winner Marie Curie")
  assert triplets.query(triplet) == ("Nobel", "Prize", "Marie", "Curie")
  assert triplets.query(Triplet("Paris", "is", "PARIS")) is None
  assert triplets.query(Triplet("Paris", "is", "a city")) == ("Paris", "city")


@pytest.mark.parametrize("end", ["", "  ", "It", "themselves", "Who"])
def test_an_end_that_is_empty_or_a_pronoun_is_not_valid(end):
  assert not triplets.is_valid(Triplet(end, "r", "Paris"))
  assert not triplets.is_valid(Triplet("Paris", "r", end))
  assert triplets.is_valid(Triplet("Paris", "", "Rome"))


def test_the_relation_word_is_new():
  ends = ("Marie", "Warsaw")
  assert triplets.relation_word(Triplet("Marie", "was born in", "Warsaw"), ends) == "born"
  assert triplets.relation_word(Triplet("Marie", "is in", "Warsaw"), ends) is None
  assert triplets.relation_word(Triplet("Marie", "marie of", "Warsaw"), ends) is None
