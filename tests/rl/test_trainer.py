"""Whole runs of a tiny model: resume, kill, other meshes, what is refused and what is written."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import tiny_checkpoint

from asc_jax import config as config_lib
from asc_jax.rl import checkpointing, logs, loop, trainer, update
from asc_jax.types import UserError

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 4


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
  return tiny_checkpoint.write(tmp_path_factory.mktemp("tiny"))


def overrides(checkpoint):
  """Byte tokens make long prompts, so passages are short; finished answers earn, cut ones do not."""
  return {
    "model.path": str(checkpoint),
    "data.instruction": "Answer.",
    "data.passage_words": 30,
    "data.prompt_buckets": (384, 512),
    "rollout.group_size": 4,
    "rollout.max_tokens": 24,
    "rollout.temperature": 1.0,
    "checker.name": "lexical",
    "credit.vacuous": False,
    "credit.supported": False,
    "optimizer.learning_rate": 1e-2,
    "optimizer.warmup_steps": 1,
    "train.steps": STEPS,
    "train.checkpoint_every": 2,
    "eval.questions": 2,
  }


@pytest.fixture
def config(checkpoint):
  config = config_lib.default_config()
  for name, value in overrides(checkpoint).items():
    config_lib.assign(config, name, value)
  return config


def command(checkpoint, workdir, **more):
  flags = {f"config.{k}": v for k, v in (overrides(checkpoint) | more).items()}
  texts = [
    f"--{k}={','.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in flags.items()
  ]
  return [sys.executable, "-m", "asc_jax.main", f"--workdir={workdir}", *texts]


def environment(devices=1):
  return os.environ | {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
  }


def run(argv, devices=1):
  return subprocess.run(
    argv, cwd=ROOT, env=environment(devices), capture_output=True, text=True, timeout=600
  )


def digest_of(result):
  assert result.returncode == 0, result.stderr[-2000:]
  return result.stdout.strip().splitlines()[-1].split()[-1]


@pytest.fixture(scope="session")
def uninterrupted(checkpoint, tmp_path_factory):
  """(work directory, result) of a run left alone."""
  workdir = tmp_path_factory.mktemp("alone")
  return workdir, run(command(checkpoint, workdir))


def test_a_run_ends_with_its_tables_and_digest(uninterrupted):
  workdir, result = uninterrupted
  digest = digest_of(result)
  assert len(digest) == 64
  for text in ("where the time went", "base", "trained", "groups with non-zero advantages"):
    assert text in result.stdout
  assert "FAILED" not in result.stdout
  steps = [row["step"] for row in logs.read_metrics(workdir / "metrics.jsonl")]
  assert steps == [1, 2, 3, 4]
  assert json.loads((workdir / "config.json").read_text())["train.steps"] == STEPS
  assert len((workdir / "records" / "step_000004.jsonl").read_text().splitlines()) == 2


def test_several_updates_a_batch_count_each_ones_metrics(config):
  """Ratios and clipping move away from the sampling policy; all updates' are reported."""
  config.train.updates_per_batch = 2
  one = trainer.Trainer(config, None)
  batch, _ = one.batch(next(one.iterator), 0)
  with jax.set_mesh(one.mesh):
    start = jax.tree.map(np.array, one.train_state)  # updates donate what they are given
    middle, first = one._update(jax.device_put(start), batch)
    _, second = one._update(middle, batch)
  parts = [jax.device_get(metrics["loss/ratio"]) for metrics in (first, second)]
  assert parts[0].total / parts[0].weight != parts[1].total / parts[1].weight

  both = jax.device_get(one.update(batch))
  assert int(one.train_state.step) == 2
  np.testing.assert_allclose(both["loss/ratio"].total, parts[0].total + parts[1].total, rtol=1e-6)
  np.testing.assert_allclose(both["loss/ratio"].weight, 2 * parts[0].weight)
  assert both["advantage/sentence"].values.shape == batch.sentences.mask.shape


@pytest.mark.parametrize("after", [1, 3])
def test_kill_9_then_the_same_command_gives_the_same_parameters(
  checkpoint, uninterrupted, tmp_path, after
):
  """Killed once `after` metric lines stand, whatever is half-written then."""
  argv = command(checkpoint, tmp_path)
  process = subprocess.Popen(
    argv, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
  )
  metrics = tmp_path / "metrics.jsonl"
  deadline = time.monotonic() + 300
  while time.monotonic() < deadline and process.poll() is None:
    if metrics.exists() and len(metrics.read_text().splitlines()) >= after:
      break
    time.sleep(0.02)
  process.send_signal(signal.SIGKILL)
  process.wait()
  assert digest_of(run(argv)) == digest_of(uninterrupted[1])
  rows = logs.read_metrics(metrics)
  assert [row["step"] for row in rows] == [1, 2, 3, 4]
  alone = logs.read_metrics(uninterrupted[0] / "metrics.jsonl")
  assert [r["loss/total"] for r in rows] == [r["loss/total"] for r in alone]
  assert tensorboard_steps(tmp_path) == [1, 2, 3, 4]


def test_lines_that_are_no_step_do_not_stop_a_resumed_run(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_bytes(b'{"step": 1}\n[1]\n{"a": 1}\n{"step": 2}\n\xff\n{"st')
  logs.MetricsWriter(tmp_path, 1).close()
  assert path.read_text() == '{"step": 1}\n'


def tensorboard_steps(workdir):
  """The steps of one curve in a reader's view (lanpa/tensorboardX#185)."""
  accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
  reader = accumulator.EventAccumulator(str(workdir / "tensorboard"))
  reader.Reload()
  return [event.step for event in reader.Scalars("loss/total")]


@pytest.mark.parametrize("marker", checkpointing.COMMIT_MARKERS)
def test_an_incomplete_newest_step_is_taken_again(checkpoint, uninterrupted, tmp_path, marker):
  """AI-Hypercomputer/maxtext#5260: the commit marker of the newest step is gone."""
  workdir = tmp_path / "copy"
  shutil.copytree(uninterrupted[0], workdir)
  (workdir / "checkpoints" / "4" / marker).unlink()
  result = run(command(checkpoint, workdir))
  assert digest_of(result) == digest_of(uninterrupted[1])
  assert "incomplete" in result.stderr
  assert "resumed from step 2" in result.stderr
  assert checkpointing.Checkpoints(workdir).latest() == STEPS


def test_a_checkpoint_of_eight_devices_is_read_on_one_and_two(checkpoint, tmp_path):
  """google/orbax#648: resume on another mesh with bit-equal parameters."""
  eight = run(
    command(checkpoint, tmp_path, **{
      "mesh.data": 1, "mesh.fsdp": 2, "mesh.tensor": 4, "train.steps": 2,
    }),
    devices=8,
  )  # fmt: skip
  for devices, axes in ((1, (1, 1, 1)), (2, (1, 2, 1)), (8, (2, 1, 4))):
    mesh = dict(zip(("mesh.data", "mesh.fsdp", "mesh.tensor"), axes, strict=True))
    again = run(command(checkpoint, tmp_path, **{"train.steps": 2}, **mesh), devices=devices)
    assert digest_of(again) == digest_of(eight)


def test_a_changed_config_is_refused_with_a_diff(checkpoint, uninterrupted):
  result = run(command(checkpoint, uninterrupted[0], **{"loss.beta": 0.5}))
  assert result.returncode == 2
  assert len(result.stderr.strip().splitlines()) == 1
  assert "loss.beta: 0.04 -> 0.5" in result.stderr
  assert "allow_config_change" in result.stderr


def test_a_checkpoint_of_another_model_is_refused(config, uninterrupted):
  """The parameter is named, with both shapes."""
  workdir, _ = uninterrupted
  config.model.lora.rank = 2
  config.train.allow_config_change = True
  with pytest.raises(UserError, match="is of another model"):
    trainer.Trainer(config, workdir)


def test_an_adapters_reference_stays_the_base_model(config):
  config.model.lora.rank = 2
  run_ = trainer.Trainer(config)
  batch, _ = run_.rollout(next(run_.iterator), 0)
  before = np.asarray(batch.ref_logps)
  for _ in range(3):
    run_.update(batch)
  after = update.log_probs(run_.reference, batch.prompts, batch.rollout.tokens, run_.settings)
  np.testing.assert_array_equal(before, after)
  policy = update.log_probs(run_.model, batch.prompts, batch.rollout.tokens, run_.settings)
  real = np.asarray(batch.token_mask)
  assert np.abs(np.asarray(policy) - before)[real].max() > 1e-4


@pytest.mark.parametrize(
  ("change", "message"),
  [({"checker.name": "nosuch"}, "'nosuch' is none of"), ({"checker.head": "c"}, "no option head")],
)
def test_bad_input_leaves_nothing_behind(config, tmp_path, change, message):
  for name, value in change.items():
    config_lib.assign(config, name, value)
  with pytest.raises(UserError, match=message):
    trainer.Trainer(config, tmp_path / "run")
  assert not list(tmp_path.iterdir())


def test_a_workdir_below_a_file_is_refused_before_weights_load(config, tmp_path, monkeypatch):
  monkeypatch.setattr(loop.checkers, "from_config", None)
  (tmp_path / "file").touch()
  with pytest.raises(UserError, match="workdir=.*file/run cannot be written"):
    trainer.Trainer(config, tmp_path / "file" / "run")


def test_questions_without_passages_are_refused(config, tmp_path):
  config.data.corpus, config.data.split = "webquestions", "all"
  config.data.path = str(tmp_path / "questions.json")
  row = {"url": "u", "utterance": "Who?", "targetValue": '(list (description "Ann"))'}
  pathlib.Path(config.data.path).write_text(json.dumps([row]))
  config.eval.questions = 0
  with pytest.raises(UserError, match="webquestions has no passages"):
    trainer.Trainer(config)


@pytest.mark.parametrize("damaged", ["meta/metadata", "state/_METADATA", "state/manifest.ocdbt"])
def test_a_damaged_checkpoint_is_named(config, uninterrupted, tmp_path, damaged):
  workdir = tmp_path / "run"
  shutil.copytree(uninterrupted[0], workdir)
  (workdir / "checkpoints" / str(STEPS) / damaged).write_bytes(b"{")
  config.train.allow_config_change = True
  with pytest.raises(UserError, match=f"checkpoints/{STEPS} is not readable"):
    trainer.Trainer(config, workdir)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"data.batch_size": 3, "mesh.data": 2}, "does not divide"),
    ({"mesh.data": 64}, "devices"),
    ({"data.prompt_buckets": (8,), "data.overlong": "drop"}, "prompt_buckets"),
    ({"data.corpus": "ragtruth", "data.path": "/nowhere/at/all"}, "/nowhere/at/all"),
    ({"model.path": "/nowhere/at/all"}, "/nowhere/at/all"),
    ({"rollout.max_tokens": 3585}, r"made for 4096 tokens .* prompt of 512 .* answer of 3585"),
    ({"eval.max_tokens": 3585}, r"made for 4096 tokens"),
    ({"train.compilation_cache": "/dev/null/x"}, "compilation_cache=/dev/null/x cannot be written"),
  ],
)
def test_bad_input_is_named_before_weights_load(config, monkeypatch, change, message):
  def refuse(*args, **kwargs):
    raise AssertionError("weights were loaded")

  monkeypatch.setattr(loop.checkpoints, "load", refuse)
  for name, value in change.items():
    config_lib.assign(config, name, value)
  with pytest.raises(UserError, match=message):
    trainer.Trainer(config)


def test_the_compilation_cache_stays_off_on_cpus(monkeypatch, tmp_path):
  """jax-ml/jax#38445: there a second run rejects what the first one stored."""
  asked = {}
  monkeypatch.setattr(jax.config, "update", lambda name, value: asked.update({name: value}))
  loop.set_compilation_cache("auto")
  loop.set_compilation_cache("none")
  assert not asked
  monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
  loop.set_compilation_cache("auto")
  loop.set_compilation_cache(f"{tmp_path}/new")
  assert asked == {"jax_compilation_cache_dir": f"{tmp_path}/new"}
