"""Whole CorVer runs of a tiny model on a tiny corpus: trained, resumed, filtered, refused."""

import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest
import tiny_checkpoint

from asc_jax import config as config_lib
from asc_jax import evaluate
from asc_jax import main as main_lib
from asc_jax.corver import learning_zone, reward
from asc_jax.evaluation import completions, corver_paper, records
from asc_jax.rl import corver_trainer, logs, methods, sampler, update
from asc_jax.text import answers
from asc_jax.types import UserError

QUESTIONS = [
  ("Where was Ann born?", ["a", "e"]),
  ("Who met Bob?", ["i"]),
  ("What is Ulm?", ["zz"]),
  ("And Oslo?", ["zz"]),
]
CORPUS = ["Ann was born in Ulm."] * 3 + ["Bob met Ann in Oslo."]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
  return tiny_checkpoint.write(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def config(checkpoint, tmp_path):
  rows = [json.dumps({"question": q, "answer": a}) for q, a in QUESTIONS]
  (tmp_path / "NQ-open.jsonl").write_text("\n".join(rows))
  (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))
  config = config_lib.apply_method(config_lib.default_config(), "corver")
  for name, value in {
    "model.path": str(checkpoint),
    "model.lora.rank": 2,
    "data.instruction": "Answer.",
    "data.corpus": "nq_open",
    "data.path": str(tmp_path / "NQ-open.jsonl"),
    "data.split": "all",
    "data.prompt_buckets": (128,),
    "rollout.group_size": 4,
    "rollout.max_tokens": 16,
    "rollout.temperature": 1.0,
    "corver.index": str(tmp_path / "corpus.txt"),
    "optimizer.learning_rate": 1e-2,
    "optimizer.warmup_steps": 1,
    "loss.beta": 1e-3,
    "train.steps": 2,
    "train.checkpoint_every": 1,
    "eval.split": "all",
    "eval.questions": 2,
  }.items():
    config_lib.assign(config, name, value)
  return config


def test_a_run_from_one_command(config, tmp_path, capsys):
  """The quickstart in miniature: trained, evaluated before and after, and started again."""
  config.corver.min_nonzero_tokens = 0.1
  main_lib.main(config, str(tmp_path / "run"))
  printed = capsys.readouterr().out
  for text in ("tokens with non-zero advantages", "correct %", "not attempted %", "format %"):
    assert text in printed
  rows = logs.read_metrics(tmp_path / "run" / "metrics.jsonl")
  assert [row["step"] for row in rows] == [1, 2]
  for name in (
    "nonzero_tokens",
    "clipped_tokens",
    "tied_groups",
    "correct",
    "refused",
    "formatted",
  ):
    assert all(0 <= row[f"corver/{name}"] <= 1 for row in rows)
  last = tmp_path / "run" / "records" / "step_000002.jsonl"
  found = records.read(last, completions.Completion)
  assert len(found) == 2 and {r["method"] for r in found} == {"corver"}
  for row in found:
    assert row["aliases"] == next(a for q, a in QUESTIONS if q == row["question"])
    assert row["outcome"] == reward.outcome(row["answer"], row["aliases"])
  digest = printed.strip().splitlines()[-1]
  main_lib.main(config, str(tmp_path / "run"))  # nothing is left to do
  assert capsys.readouterr().out.strip().splitlines()[-1] == digest
  check_evaluation(config, tmp_path / "run", tmp_path / "compared")
  assert "\nnq_open\n" in capsys.readouterr().out


def check_evaluation(config, run, workdir):
  """What the run says of itself before and after, an evaluation of its checkpoint says too."""
  models = f"base,{run}"
  with pytest.raises(UserError, match="scores by config.corver alone"):
    evaluate.main(config, str(workdir), models, "lexical")
  evaluate.main(config, str(workdir), models, None)
  for name, step in (("base_000000", 0), ("run_000002", 2)):
    own = records.read(run / f"records/step_{step:06d}.jsonl", completions.Completion)
    found = records.read(workdir / f"records/nq_open/{name}.jsonl", completions.Completion)
    labels = {"run": name.partition("_")[0], "method": "corver" if step else "base"}
    assert found == [row | labels for row in own]
  unread = config.copy_and_resolve_references()
  unread.corver.verifier = "checker"  # which has nothing to read
  with pytest.raises(UserError, match="nq_open has no passages"):
    evaluate.main(unread, str(workdir / "unread"), "base", None)
  (compared,) = corver_paper.load_all([str(workdir)])
  assert compared.name == "run" and compared.before.keys() == compared.after.keys() == {"nq_open"}


def test_too_few_tokens_with_an_advantage_fail_the_run():
  config = config_lib.default_config()
  config.corver.min_nonzero_tokens = 0.1
  means = {"advantage/nonzero_groups": 0.0, "corver/nonzero_tokens": 0.0999}
  (failure,) = main_lib.shortcomings(means, True, config)
  assert failure == "10.0 % of tokens had non-zero advantages, under 10.0 %"
  assert not main_lib.shortcomings(means | {"corver/nonzero_tokens": 0.1}, True, config)


def texts_of(run, questions, settings, key):
  """What a policy answers to each question, one question at a time."""
  found = []
  for question in questions:
    drawn = sampler.sample_questions(
      run.model, [question], key, settings, data=run.config.data, mesh=run.mesh
    )
    found.append(
      [
        run.tokenizer.decode(row[:length].tolist(), skip_special_tokens=True)
        for row, length in zip(drawn.tokens[0], drawn.lengths[0], strict=True)
      ]
    )
  return found


@pytest.fixture
def rollout(config):
  """(run, batch, what the host saw, texts), where each question's first text is its alias."""
  config.corver.levels = "0:0,1:1"  # random letters are in no corpus, so no sentence earns
  run = methods.loop_of(config)(config)
  questions = next(run.iterator)
  texts = texts_of(run, questions, run.sampling, jax.random.fold_in(run.key, 0))
  questions = [
    q._replace(example=dataclasses.replace(q.example, aliases=(own[0],)))
    for q, own in zip(questions, texts, strict=True)
  ]
  batch, host = run.batch(questions, 0)
  return run, batch, host, texts


def test_a_batch_is_rewarded_as_its_texts_are(config, rollout):
  """Advantages of a real rollout, from its texts by a loop in NumPy."""
  _, batch, host, texts = rollout
  advantages, metrics = corver_trainer.token_advantages(batch, reward.objective(config))
  lengths = np.asarray(batch.rollout.lengths)
  right = np.array(
    [[answers.normalise(t) == answers.normalise(own[0]) for t in own] for own in texts]
  )
  assert right[:, 0].all() and not right.all()
  for b in range(2):
    means = np.where(right[b], 2.0, -1.0) - 1.0  # no tags: the whole is the answer, unformatted
    values = np.clip((means - means.mean()) / (means.std(ddof=1) + 1e-4), -5, 5)
    for g in range(4):
      found = np.asarray(advantages)[b, g]
      np.testing.assert_allclose(found[: lengths[b, g]], values[g], rtol=1e-4)
      assert not found[lengths[b, g] :].any()
  assert host.scalars["corver/correct"] == right.mean()
  assert float(metrics["rollout/tokens"].total) == lengths.sum() == host.tokens


def test_an_update_makes_the_better_rewarded_likelier(config, rollout):
  run, batch, _, _ = rollout
  advantages, _ = corver_trainer.token_advantages(batch, reward.objective(config))

  def log_probs(model):
    return update.log_probs(model, batch.prompts, batch.rollout.tokens, run.settings)

  before = np.asarray(log_probs(run.model))
  for _ in range(3):
    run.update(batch)
  moved = (np.asarray(log_probs(run.model)) - before) * np.asarray(batch.token_mask)
  assert (moved * np.asarray(advantages)).sum() > 0.1
  np.testing.assert_array_equal(log_probs(run.reference), batch.ref_logps)


def test_the_learning_zone_is_measured_once_and_filters(config, tmp_path, monkeypatch):
  """Two questions are right sometimes, one always, one never: their aliases were drawn before."""
  section = config.corver
  section.update({"zone_samples": 4, "zone_high": 3, "zone_top_p": 0.9})
  config.eval.questions = 0
  first = methods.loop_of(config)(config)
  settings = first.sampling._replace(temperature=0.7, top_p=0.9)
  texts = texts_of(first, first.train_work.questions, settings, jax.random.key(0))
  aliases = [texts[0][:1], texts[1][:1], texts[2], ["zz"]]
  asked = [q.example.question for q in first.train_work.questions]
  rows = [{"question": q, "answer": own} for q, own in zip(asked, aliases, strict=True)]
  pathlib.Path(config.data.path).write_text("\n".join(map(json.dumps, rows)))
  once = [own.count(own[0]) for own in texts[:2]]
  assert max(once) < 4, "answers that differ were wanted"

  section.pass_rates = str(tmp_path / "rates.jsonl")
  run = methods.loop_of(config)(config)
  _, passed = learning_zone.read(section.pass_rates)
  ids = [q.example.id for q in first.train_work.questions]
  assert passed == dict(zip(ids, (*once, 4, 0), strict=True))
  assert [q.example.id for q in run.train_work.questions] == ids[:2]
  assert run.train_work.counts["outside the learning zone"] == 2
  assert {q.example.id for q in next(run.iterator)} == set(ids[:2])

  def refuse(*args, **kwargs):
    raise AssertionError("sampled again")

  monkeypatch.setattr(corver_trainer.CorverTrainer, "_judge", refuse)
  section.anchors = 1
  again = methods.loop_of(config)(config)
  assert [q.example.id for q in again.train_work.questions] == ids[:3]
  section.zone_temperature = 1.0
  monkeypatch.setattr(corver_trainer.checkpoints, "load", refuse)
  with pytest.raises(UserError, match="made with another zone_temperature"):
    methods.loop_of(config)(config)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"corver.index": None}, r"config\.corver\.index is not set"),
    ({"corver.index": "/nowhere"}, "/nowhere holds no infini-gram index"),
    ({"corver.levels": "three_level"}, "needs explicit values"),
    ({"corver.extractor": "/nowhere"}, "/nowhere"),
    ({"corver.zone_low": 4, "corver.zone_high": 3}, "zone_low"),
    ({"rollout.group_size": 1}, "group_size"),
    ({"data.corpus": "quickstart", "data.path": None}, "no short answers"),
    ({"corver.verifier": "checker"}, "has no passages"),
  ],
)
def test_bad_input_is_named_before_weights_load(config, monkeypatch, tmp_path, change, message):
  def refuse(*args, **kwargs):
    raise AssertionError("weights were loaded")

  monkeypatch.setattr(corver_trainer.checkpoints, "load", refuse)
  for name, value in change.items():
    config_lib.assign(config, name, value)
  with pytest.raises(UserError, match=message):
    methods.loop_of(config)(config, tmp_path / "run")
  assert not (tmp_path / "run").exists()


def test_fspo_trains_on_questions_with_passages(config, tmp_path):
  """The same loop, with a checker's verdicts on the questions' own passages."""
  row = {
    "id": 7,
    "question": "Where is Ann?",
    "golden_answers": ["a"],
    "metadata": {"s_pop": 3, "prop": "place"},
    "paragraphs": [{"title": "Ann", "text": "Ann is in Ulm."}],
  }
  pathlib.Path(tmp_path / "popQA.jsonl").write_text(json.dumps(row) + "\n")
  flat = config_lib.flatten(config)
  config_lib.apply_method(config, "fspo")
  for name, value in flat.items():
    if name.split(".")[0] != "corver" and name != "method":
      config_lib.assign(config, name, value)
  config.corver.index = None
  config.checker.name = "lexical"
  config.data.update({"corpus": "popqa", "path": str(tmp_path / "popQA.jsonl"), "batch_size": 1})
  run = methods.loop_of(config)(config)
  batch, host = run.batch(next(run.iterator), 0)
  verdicts = np.asarray(batch.rewards.local)
  assert set(np.unique(verdicts)) <= {-1.0, 0.0, 1.0} and (verdicts != 0).any()
  assert host.scalars["corver/looked_up"] == 0
  values, _ = corver_trainer.token_advantages(batch, reward.objective(config))
  plain, _ = corver_trainer.token_advantages(
    batch._replace(rewards=batch.rewards._replace(local=np.zeros_like(verdicts))),
    reward.objective(config),
  )
  np.testing.assert_array_equal(np.abs(values), np.abs(plain))  # only signs are turned
