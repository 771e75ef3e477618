"""Every setting of a run: its type, default, unit and source, in one table.

Configs are ml_collections ConfigDicts made from `FIELDS`, so that each field can
be set on the command line (`--config.loss.beta=0`). `validate` checks types,
ranges and the few rules between fields, and names the field that is wrong.
"Unknown" in a description means that the paper does not give the value and the
default is this project's choice.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from asc_jax.types import UserError


@dataclasses.dataclass(frozen=True)
class Field:
  """One setting: `low` and `high` are inclusive; `optional` allows None."""

  default: Any
  help: str
  type: type = str
  choices: tuple[str, ...] = ()
  low: float | None = None
  high: float | None = None
  optional: bool = False


def _int(default, text, low=0, high=None, optional=False):
  return Field(default, text, int, low=low, high=high, optional=optional)


def _float(default, text, low=0.0, high=None, optional=False):
  return Field(default, text, float, low=low, high=high, optional=optional)


def _bool(default, text):
  return Field(default, text, bool)


def _str(default, text, choices=(), optional=False):
  return Field(default, text, str, choices=choices, optional=optional)


FIELDS: dict[str, Field] = {
    "seed": _int(0, "seed of the data order, the adapter's start and sampling"),
    "method": _str("asc", "name of the method; the fields of credit, advantage and loss say what it is"),
    # model
    "model.path": _str("smollm2", "a checkpoint folder (safetensors), a .gguf file, or smollm2 for the packaged SmolLM2-135M-Instruct"),
    "model.dtype": _str("auto", "compute type; auto is bfloat16 on accelerators and float32 on CPUs. Trained parameters are float32 always", ("auto", "float32", "bfloat16")),
    "model.lora.rank": _int(0, "rank of the adapters; 0 trains all parameters"),
    "model.lora.alpha": _float(16.0, "adapters are scaled by alpha / rank"),
    "model.lora.targets": _str("q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", "projections that get an adapter, comma-separated"),
    "model.remat": _str("block", "what the backward pass recomputes: each block, or nothing", ("block", "none")),
    "model.attention": _str("auto", "attention of the update; auto picks by platform", ("auto", "blockwise", "splash", "cudnn", "reference")),
    "model.logprob_chunk": _int(256, "answer positions whose logits exist at one time", low=1),
    # data
    "data.corpus": _str("quickstart", "reader of the training questions (asc_jax/data/corpora)"),
    "data.path": _str(None, "file or folder of the corpus in its public format; None for packaged ones", optional=True),
    "data.batch_size": _int(2, "questions a step, over all hosts (paper: unknown)", low=1),
    "data.prompt_buckets": Field((384,), "prompt lengths in tokens to which prompts are padded; each compiles once", tuple),
    "data.overlong": _str("cut", "a prompt longer than the largest bucket: cut its last passages, or drop the question; both are counted", ("cut", "drop")),
    "data.instruction": _str("Answer the question in your own words, in two or three complete sentences, using only the passages.", "system text of the prompt (paper: unknown)"),
    "data.max_passages": _int(None, "passages kept a question, in corpus order; None keeps all", low=1, optional=True),
    "data.system_role": _bool(True, "send the instruction as a system message; False puts it in front of the question, for templates without that role"),
    # rollout
    "rollout.group_size": _int(8, "answers a question (paper: 8)", low=1),
    "rollout.max_tokens": _int(48, "tokens an answer (paper: unknown)", low=1),
    "rollout.temperature": _float(0.7, "sampling temperature, 0 is greedy (paper: unknown)", high=10.0),
    "rollout.top_k": _int(0, "keep the k likeliest tokens; 0 keeps all"),
    "rollout.top_p": _float(1.0, "keep the likeliest tokens that hold this much probability", low=1e-6, high=1.0),
    "rollout.truncated": _str("keep", "an answer cut off by max_tokens: keep it, mask its last sentence's tokens, or drop the answer from the loss. Its unfinished sentence earns nothing in any case", ("keep", "mask", "drop")),
    "rollout.is_cap": _float(None, "cap of the importance weight exp(logp - sampler's logp) where the sampler is of lower precision; None: no weight", low=1.0, optional=True),
    # text
    "text.copy_ngram": _int(5, "words of a verbatim match (paper: 5)", low=1),
    "text.copy_threshold": _float(0.5, "masked share from which a sentence counts as copied (paper: unknown)", high=1.0),
    "text.trailing": _str("sentence", "who owns the white space after a sentence and the end-of-answer token (paper: unknown)", ("sentence", "none")),
    "text.empty_answer": _str("sentence", "an answer without sentences counts as one uncredited sentence, or as none", ("sentence", "none")),
    # checker
    "checker.name": _str("minilm", "the reward's instrument (asc_jax/checkers)"),
    "checker.path": _str(None, "its checkpoint folder; None for packaged ones", optional=True),
    "checker.threshold": _float(0.5, "supported iff P(supported) is above this (MiniCheck: 0.5)", high=1.0),
    "checker.score_copied": _bool(True, "score copied sentences too; False saves time, and R is then absent"),
    "checker.batch_size": _int(64, "pairs a checker batch", low=1),
    # credit
    "credit.unit": _str("sentence", "what earns reward: each sentence, or the answer as a whole", ("sentence", "answer")),
    "credit.reward": _str("authored", "authored: the three tests below; support: R, the share of supported sentences", ("authored", "support")),
    "credit.authored": _bool(True, "a copied sentence earns nothing"),
    "credit.vacuous": _bool(True, "a sentence that the question alone supports earns nothing"),
    "credit.supported": _bool(True, "a sentence that the passages do not support earns nothing"),
    "credit.copy_weight": _float(0.0, "lambda of the copy penalty, R - lambda * Copy, answer rewards only"),
    # advantage
    "advantage.ddof": _int(0, "0 population std, 1 sample std (paper: unknown)", high=1),
    "advantage.eps": _float(1e-6, "added to the std"),
    "advantage.baseline": _str("mean", "answer rewards: the group's mean, or leave-one-out (RLOO)", ("mean", "loo")),
    "advantage.scale": _str("std", "divide by the std, or not (Dr. GRPO)", ("std", "none")),
    # loss
    "loss.beta": _float(0.04, "weight of the KL to the reference (paper: 0.04)"),
    "loss.clip_low": _float(0.2, "the ratio's lower clip is 1 - clip_low (GRPO: 0.2)", high=1.0),
    "loss.clip_high": _float(0.2, "the ratio's upper clip is 1 + clip_high (GRPO: 0.2)"),
    "loss.normalise": _str("answer", "answer: GRPO's; token: DAPO's; constant: Dr. GRPO's", ("answer", "token", "constant")),
    "loss.constant": _float(None, "tokens an answer counts as under normalise=constant", low=1.0, optional=True),
    # optimizer
    "optimizer.learning_rate": _float(1e-6, "peak learning rate of AdamW (paper: 1e-6)"),
    "optimizer.schedule": _str("constant", "after the warm-up", ("constant", "linear", "cosine")),
    "optimizer.warmup_steps": _int(36, "linear warm-up, in updates (paper: 36)"),
    "optimizer.b1": _float(0.9, "Adam's first decay", high=1.0),
    "optimizer.b2": _float(0.999, "Adam's second decay", high=1.0),
    "optimizer.eps": _float(1e-8, "Adam's epsilon"),
    "optimizer.weight_decay": _float(0.0, "decoupled weight decay, a step at learning rate 1"),
    "optimizer.clip_norm": _float(1.0, "global norm to which gradients are clipped; 0 does not clip"),
    # train
    "train.steps": _int(8, "batches of rollouts", low=0),
    "train.epochs": _float(None, "if set, steps follow from it (paper: 1)", low=0.0, optional=True),
    "train.updates_per_batch": _int(1, "updates a batch of rollouts (paper: 1)", low=1),
    "train.micro_batch": _int(None, "questions a forward and backward pass; gradients add up exactly; None: the whole batch", low=1, optional=True),
    "train.checkpoint_every": _int(4, "steps between checkpoints; 0 saves only the last", low=0),
    "train.keep": _int(2, "checkpoints kept", low=1),
    "train.eval_every": _int(0, "steps between evaluations; 0: before and after only"),
    "train.max_bad_steps": _int(3, "updates skipped for a non-finite loss or gradient before the run stops", low=1),
    "train.allow_config_change": _bool(False, "resume although the config differs from the checkpoint's"),
    "train.compilation_cache": _str("auto", "folder of the persistent compilation cache; auto: on for accelerators, off on CPUs; none: off"),
    # mesh
    "mesh.data": _int(1, "devices over questions; -1 takes what is left", low=-1),
    "mesh.fsdp": _int(1, "devices over which parameters are sharded and questions split", low=-1),
    "mesh.tensor": _int(1, "devices over heads, MLP width and vocabulary", low=-1),
    "mesh.timeout": _int(600, "seconds a host waits for the others before it stops", low=1),
    # eval
    "eval.corpus": _str(None, "reader of the evaluation questions; None: data.corpus's", optional=True),
    "eval.path": _str(None, "its file or folder", optional=True),
    "eval.questions": _int(8, "questions evaluated, the split's first by hash; 0: no evaluation"),
    "eval.answers": _int(1, "answers a question", low=1),
    "eval.temperature": _float(0.0, "sampling temperature, 0 is greedy", high=10.0),
    "eval.max_tokens": _int(None, "tokens an answer; None: rollout.max_tokens", low=1, optional=True),
}


def default_config() -> config_dict.ConfigDict:
  """All of `FIELDS` at their defaults, locked against unknown names."""
  config = config_dict.ConfigDict()
  for name, field in FIELDS.items():
    *groups, leaf = name.split(".")
    node = config
    for group in groups:
      if group not in node:
        node[group] = config_dict.ConfigDict()
      node = node[group]
    if field.default is None:
      node[leaf] = config_dict.placeholder(field.type)
    else:
      node[leaf] = field.default
  config.lock()
  return config


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  """{"loss.beta": 0.04, ...}, in the order of the config."""
  flat = {}
  for key, value in config.items():
    if isinstance(value, Mapping | config_dict.ConfigDict):
      flat.update(flatten(value, f"{prefix}{key}."))
    else:
      flat[prefix + key] = value
  return flat


def nearest(name: str, names) -> str:
  """`; did you mean X?` where some name is close, else an empty string."""
  close = difflib.get_close_matches(name, list(names), n=1)
  return f"; did you mean {close[0]}?" if close else ""


def _check(name: str, value: Any, field: Field) -> Any:
  wanted = field.type.__name__ + (" or None" if field.optional else "")
  problem = UserError(f"config.{name} takes {wanted}, not {value!r}")
  if value is None:
    if field.optional:
      return
    raise problem
  if field.type is float and isinstance(value, int) and not isinstance(value, bool):
    value = float(value)
  if field.type is not bool and isinstance(value, bool) or not isinstance(value, field.type):
    raise problem
  if field.type is float and not math.isfinite(value):
    raise UserError(f"config.{name} must be finite, not {value!r}")
  if field.choices and value not in field.choices:
    raise UserError(f"config.{name} is one of {', '.join(field.choices)}, not {value!r}{nearest(value, field.choices)}")
  if field.low is not None and value < field.low or field.high is not None and value > field.high:
    low = "-inf" if field.low is None else f"{field.low:g}"
    high = "inf" if field.high is None else f"{field.high:g}"
    raise UserError(f"config.{name} lies in [{low}, {high}], not {value!r}")


def validate(config: config_dict.ConfigDict) -> None:
  """Checks every field and the rules between them.

  Raises:
    UserError: naming the field, what it takes and what it was given.
  """
  flat = flatten(config)
  for name in flat:
    if name not in FIELDS:
      raise UserError(f"config.{name} is not a field{nearest(name, FIELDS)}")
  for name, field in FIELDS.items():
    if name not in flat:
      raise UserError(f"config.{name} is missing; start from asc_jax.config.default_config()")
    _check(name, flat[name], field)
  buckets = config.data.prompt_buckets
  if not buckets or any(type(b) is not int or b < 2 for b in buckets) or list(buckets) != sorted(set(buckets)):
    raise UserError(f"config.data.prompt_buckets is a rising tuple of token counts of at least 2, not {buckets!r}")
  if config.loss.normalise == "constant" and config.loss.constant is None:
    raise UserError("config.loss.constant is needed where config.loss.normalise=constant")
  if config.train.micro_batch and config.data.batch_size % config.train.micro_batch:
    raise UserError(f"config.train.micro_batch={config.train.micro_batch} does not divide config.data.batch_size={config.data.batch_size}")
  if config.credit.copy_weight and config.credit.unit != "answer":
    raise UserError("config.credit.copy_weight needs config.credit.unit=answer")
  if config.rollout.temperature == 0 and config.train.steps:
    raise UserError("config.rollout.temperature=0 draws the same answer every time; training needs one above 0")
  if [config.mesh[a] for a in ("data", "fsdp", "tensor")].count(-1) > 1:
    raise UserError("config.mesh has more than one -1")
  if 0 in (config.mesh.data, config.mesh.fsdp, config.mesh.tensor):
    raise UserError("config.mesh axes are at least 1, or -1 for what is left")
