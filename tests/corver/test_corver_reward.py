"""Twelve completions worked by hand, the ablations, and the guards.

The literals come from plain loops over sentences, words and tokens in float64, and
from counting the corpus below by hand.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asc_jax import config as config_lib
from asc_jax.corver import build, index, reward, triplets, verify
from asc_jax.text import alignment
from asc_jax.types import Example

CORPUS = [
  *["Marie Curie was born in Warsaw."] * 6,
  *["Marie Curie worked in Paris with Pierre."] * 2,
  *["The Nile crosses Egypt and Sudan."] * 21,
  *["Lake Victoria feeds the Nile."] * 3,
  *["Oslo is the capital of Norway."] * 5,
]
ALIASES = [["Warsaw"], ["Egypt", "Misr"], ["Oslo"]]
TAGGED = "<think>{}</think>\n<answer>{}</answer>".format
WARSAW = "Marie Curie was born in Warsaw."
EGYPT, NORWAY = "The Nile crosses Egypt.", "The Nile crosses Norway."
LAKE, OSLO = "Lake Victoria feeds the Nile.", "Oslo is the capital of Norway."
TEXTS = [
  [
    TAGGED(WARSAW, "Warsaw."),
    TAGGED("Marie Curie worked in Paris.", "Paris."),
    TAGGED("It is hard to say.", "I do not know."),
    WARSAW,
  ],
  [
    TAGGED(f"{EGYPT} {LAKE}", "Egypt."),
    TAGGED(f"{LAKE} {EGYPT}", "Egypt."),
    TAGGED(f"{EGYPT} {LAKE}", "Egypt."),
    TAGGED(f"{LAKE} {EGYPT}", "Egypt."),
  ],
  [
    TAGGED(OSLO, "Oslo."),
    TAGGED(EGYPT, OSLO),
    TAGGED(f"{EGYPT} {NORWAY} {EGYPT}", OSLO),
    TAGGED(f"{OSLO} {EGYPT}", "Oslo."),
  ],
]
COUNTS = [
  [[6, None], [2, None], [None, None], [6]],
  [[21, 3, None], [3, 21, None], [21, 3, None], [3, 21, None]],
  [[5, None], [21, 5], [21, 0, 21, 5], [5, 21, None]],
]
LOCAL = [
  [[0.0, 0.0], [-0.1, 0.0], [0.0, 0.0], [0.0]],
  [[0.1, -0.1, 0.0], [-0.1, 0.1, 0.0], [0.1, -0.1, 0.0], [-0.1, 0.1, 0.0]],
  [[0.0, 0.0], [0.1, 0.0], [0.1, -0.3, 0.1, 0.0], [0.0, 0.1, 0.0]],
]
JUDGE = [[2.0, -1.0, -1.0, 2.0], [2.0] * 4, [2.0] * 4]
FORMAT = [[1.0, 1.0, 1.0, -1.0], [1.0] * 4, [1.0] * 4]
# Tokens of no sentence (the tags and the line break), then those of each sentence.
TOKENS = [
  [[15, 7, 2], [15, 6, 2], [15, 6, 5], [0, 7]],
  [[15, 5, 6, 2], [15, 6, 5, 2], [15, 5, 6, 2], [15, 6, 5, 2]],
  [[15, 7, 2], [15, 5, 7], [15, 5, 5, 5, 7], [15, 7, 5, 2]],
]
MEANS = [
  [3.0, -0.026086956521739153, 0.0, 1.0],
  [2.9964285714285714] * 4,
  [3.0, 3.0185185185185186, 2.986486486486487, 3.0172413793103448],
]
# The advantage of a token of no sentence, then of one of each sentence: the paper's
# quotient, without the guards.
PAPER = [
  [
    [1.4125373, 1.4125373, 1.4125373],
    [-0.6993819, -0.7697792, -0.6993819],
    [-0.6993819, -0.6993819, -0.6993819],
    [None, 0.0045911],
  ],
  [
    [35.7142857, 1035.7142857, -964.2857143, 35.7142857],
    [35.7142857, -964.2857143, 1035.7142857, 35.7142857],
    [35.7142857, 1035.7142857, -964.2857143, 35.7142857],
    [35.7142857, -964.2857143, 1035.7142857, 35.7142857],
  ],
  [
    [-0.3619576, -0.3619576, -0.3619576],
    [-0.3619576, 6.1462033, -0.3619576],
    [-0.3619576, 6.1462033, -19.8864404, 6.1462033, -0.3619576],
    [-0.3619576, -0.3619576, 6.1462033, -0.3619576],
  ],
]
B, G, T, S = 3, 4, 40, 5


def tokenise(text):
  return [m.span() for m in re.finditer(r" ?\w+|[^\w\s]|\s+", text)]


@pytest.fixture(scope="module")
def completions(tmp_path_factory):
  folder = tmp_path_factory.mktemp("corver")
  (folder / "corpus.txt").write_text("\n".join(CORPUS))
  build.build([str(folder / "corpus.txt")], folder / "index")
  opened = index.open_index(folder / "index")
  verifier = verify.CorpusVerifier(
    opened.counts, triplets.by_rules, verify.parse_levels("four_level")
  )
  texts = [text for group in TEXTS for text in group]
  examples = [Example("q", "c", "?", aliases=tuple(a)) for a in ALIASES for _ in range(G)]
  flat = reward.score(texts, examples, verifier, reward.Scores())
  return [flat[b * G : (b + 1) * G] for b in range(B)]


@pytest.fixture(scope="module")
def packed(completions):
  spans = [[tokenise(c.text) for c in group] for group in completions]
  rewards = reward.pack(completions, spans, max_tokens=T, max_sentences=S)
  lengths = np.array([[len(own) for own in group] for group in spans])
  return rewards, jnp.asarray(np.arange(T) < lengths[..., None])  # [B, G, T]


def test_counts_and_rewards_of_every_sentence(completions):
  assert [[[v.occurrences for v in c.verdicts] for c in g] for g in completions] == COUNTS
  assert [[[v.reward for v in c.verdicts] for c in g] for g in completions] == LOCAL
  assert [[c.judge for c in g] for g in completions] == JUDGE
  assert [[c.format for c in g] for g in completions] == FORMAT
  assert [c.outcome for c in completions[0]] == ["correct", "wrong", "refused", "correct"]
  assert [c.answer() for c in completions[0]] == ["Warsaw.", "Paris.", "I do not know.", WARSAW]


def test_tokens_of_every_sentence(packed):
  rewards, mask = packed
  for b, g in np.ndindex(B, G):
    ids = rewards.sentence_ids[b, g][np.asarray(mask[b, g])]
    assert [(ids == s).sum() for s in range(-1, len(LOCAL[b][g]))] == TOKENS[b][g]


def per_token(values):
  """[no sentence, sentence 0, ...] of each completion, in the order of its tokens."""
  out = np.zeros((B, G, T))
  for b, g in np.ndindex(B, G):
    spans, at = [], 0
    for a, z in reward.blocks_lib.sentence_spans(TEXTS[b][g], reward.blocks_lib.find(TEXTS[b][g])):
      spans.append((a, z))
    for t, (a, z) in enumerate(tokenise(TEXTS[b][g])):
      own = [s for s, (x, y) in enumerate(spans) if x < z and a < y and TEXTS[b][g][a:z].strip()]
      out[b, g, t] = values[b][g][own[0] + 1 if own else 0]
      at = z
    assert at == len(TEXTS[b][g])
  return out


def mean_returns(returns, mask):
  return np.asarray(jnp.where(mask, returns, 0).sum(2) / mask.sum(2))


def test_mean_returns(packed):
  rewards, mask = packed
  returns = reward.token_returns(rewards, mask)
  np.testing.assert_allclose(mean_returns(returns, mask), MEANS, rtol=0, atol=5e-7)
  assert not np.asarray(returns)[~np.asarray(mask)].any()


def settings(**corver):
  config = config_lib.apply_method(config_lib.default_config(), "corver")
  config.corver.update(corver)
  config_lib.validate(config)
  return reward.objective(config)


def test_advantages_to_the_last_digit(packed):
  """In float64 to the literals' last digit; in float32 to what its returns near 3 can hold."""
  rewards, mask = packed
  paper = per_token(PAPER)
  exact = settings(paper_exact=True)
  with jax.enable_x64(True):
    wide = reward.Rewards(*(np.asarray(x, np.float64) for x in rewards[:1]), *rewards[1:])
    wide = wide._replace(local=np.round(wide.local, 6))
    values, _ = reward.token_advantages(wide, mask, exact)
    assert values.dtype == jnp.float64
    np.testing.assert_allclose(values, paper, rtol=0, atol=6e-8)
  values, metrics = jax.jit(reward.token_advantages, static_argnums=2)(rewards, mask, exact)
  # Half a spacing of returns near 3 is 1.2e-7; it is divided by the group's std.
  spread = np.array([1.42, 1e-4, 0.0153])[:, None, None]
  assert (np.abs(values - paper) <= 4 * 1.2e-7 / spread * np.maximum(np.abs(paper), 1)).all()
  assert metrics["corver/clipped_tokens"].total == 0


def test_guards_zero_equal_means_and_clip_the_rest(packed):
  rewards, mask = packed
  expected = np.clip(per_token(PAPER), -5, 5)
  expected[1] = 0
  values, metrics = reward.token_advantages(rewards, mask, settings())
  np.testing.assert_allclose(values, expected, rtol=5e-5, atol=1e-6)
  assert (np.asarray(values[1]) == 0).all()
  counted = {name: (float(w.total), float(w.weight)) for name, w in metrics.items()}
  tokens = float(sum(sum(sum(c) for c in group) for group in TOKENS))
  assert counted["corver/tied_groups"] == (1, 3)
  # Of question 3: the Egypt sentences, and the Norway one.
  assert counted["corver/clipped_tokens"] == (5 * 5, tokens)
  assert counted["corver/nonzero_tokens"] == (tokens - 4 * 28, tokens)


def test_an_answer_level_scalar_leaves_mean_returns_as_they_are(packed):
  """Ablation A3."""
  rewards, mask = packed
  returns = reward.token_returns(rewards, mask, unit="answer")
  np.testing.assert_allclose(mean_returns(returns, mask), MEANS, rtol=0, atol=1e-6)
  for b, g in np.ndindex(B, G):
    assert len(set(np.asarray(returns[b, g])[np.asarray(mask[b, g])].tolist())) == 1


@pytest.mark.parametrize(
  ("weights", "expected"),
  [
    ({"local_weight": 0.0}, [[3.0, 0.0, 0.0, 1.0], [3.0] * 4, [3.0] * 4]),  # A1
    (
      {"judge_weight": 0.0},  # A2
      [[m - j for m, j in zip(*rows, strict=True)] for rows in zip(MEANS, JUDGE, strict=True)],
    ),
    (
      {"format_weight": 2.0},
      [[m + f for m, f in zip(*rows, strict=True)] for rows in zip(MEANS, FORMAT, strict=True)],
    ),
  ],
)
def test_ablations_are_weights(packed, weights, expected):
  rewards, mask = packed
  returns = reward.token_returns(rewards, mask, **weights)
  np.testing.assert_allclose(mean_returns(returns, mask), expected, rtol=0, atol=1e-6)
  own = settings(**weights)
  values, _ = reward.token_advantages(rewards, mask, own)
  same, _ = reward.token_advantages(rewards, mask, settings())
  assert np.abs(np.asarray(values - same)).max() > 0.01


def test_padding_of_sentences_and_tokens_is_ignored(packed):
  rewards, mask = packed
  filled = rewards._replace(local=np.where(rewards.local == 0, 7.0, rewards.local))
  short = [[len(c) for c in group] for group in LOCAL]
  real = np.arange(S) < np.array(short)[..., None]
  filled = rewards._replace(local=np.where(real, rewards.local, 7.0).astype(np.float32))
  np.testing.assert_array_equal(
    reward.token_returns(filled, mask), reward.token_returns(rewards, mask)
  )


@pytest.fixture(scope="module")
def subwords():
  import tokenizers
  import transformers

  model = tokenizers.Tokenizer(tokenizers.models.BPE())
  model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
  model.decoder = tokenizers.decoders.ByteLevel()
  trainer = tokenizers.trainers.BpeTrainer(
    vocab_size=330,
    special_tokens=["<end>"],
    initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
  )
  model.train_from_iterator(CORPUS, trainer)
  return transformers.PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<end>")


def test_tokens_of_a_real_tokenizer(completions, subwords):
  """Tags, tokens of white space only and the end-of-answer token belong to none."""
  completion = completions[2][2]
  ids = [*subwords.encode(completion.text), subwords.eos_token_id]
  text, spans = alignment.decode(subwords, ids)
  assert text == completion.text
  packed = reward.pack([[completion]], [[spans]], max_tokens=len(ids), max_sentences=4)
  texts = {s: "" for s in range(-1, 4)}
  for (a, z), s in zip(spans, packed.sentence_ids[0, 0], strict=True):
    texts[int(s)] += text[a:z]
  assert texts[-1] == "<think>  </think>\n<answer></answer>"
  assert [texts[s].strip() for s in range(4)] == [EGYPT, NORWAY, EGYPT, OSLO]
  assert packed.sentence_ids[0, 0, -1] == -1


def test_fspo_turns_what_disagrees_with_its_sentence(packed):
  """Group 1 by a loop: GRPO on judge and format, the sign by the sentence's reward."""
  rewards, mask = packed
  whole = [[j + f for j, f in zip(*rows, strict=True)] for rows in zip(JUDGE, FORMAT, strict=True)]
  expected = np.zeros((B, G, T))
  for b in range(B):
    mean, std = np.mean(whole[b]), np.std(whole[b], ddof=1)
    for g, t in np.ndindex(G, T):
      value = (whole[b][g] - mean) / (std + 1e-4) if std else 0.0
      s = rewards.sentence_ids[b, g, t]
      verdict = LOCAL[b][g][s] if s >= 0 else 0.0
      expected[b, g, t] = -value if verdict * value < 0 else value
  expected *= np.asarray(mask)
  values, metrics = reward.token_advantages(rewards, mask, settings(credit="sign"))
  np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
  assert (expected[0, 1] > 0).any() is np.False_ and (expected < 0).any()
  assert float(metrics["corver/tied_groups"].total) == 2
  # Were Paris supported, its tokens would go up although the answer is wrong.
  turned = rewards._replace(local=np.abs(rewards.local))
  values, _ = reward.token_advantages(turned, mask, settings(credit="sign"))
  paris = np.asarray(values[0, 1])[rewards.sentence_ids[0, 1] == 0]
  assert (paris > 0).all() and len(paris) == TOKENS[0][1][1]
