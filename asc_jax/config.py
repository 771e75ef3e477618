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
from collections.abc import Iterable, Mapping
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


MAX_TOKENS = 2**20  # of a prompt or an answer: more than any model here was made for

# Projections that take an adapter: of attention and MLP, and of Gated DeltaNet.
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
DELTA_PROJECTIONS = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")

FIELDS: dict[str, Field] = {
  "seed": _int(0, "seed of the data order, the adapter's start and sampling", high=2**32 - 1),
  "method": _str("asc", "a preset of METHODS; every field it sets can be overridden"),
  # model
  "model.path": _str(
    "smollm2",
    "a checkpoint folder (safetensors), a .gguf file, or smollm2 for the packaged SmolLM2-135M-Instruct",
  ),
  "model.dtype": _str(
    "auto",
    "compute type; auto is bfloat16 on accelerators and float32 on CPUs. Trained parameters are float32 always",
    ("auto", "float32", "bfloat16"),
  ),
  "model.lora.rank": _int(0, "rank of the adapters; 0 trains all parameters", high=4096),
  "model.lora.alpha": _float(16.0, "adapters are scaled by alpha / rank"),
  "model.lora.targets": _str(
    ",".join(PROJECTIONS),
    "projections that get an adapter, comma-separated",
  ),
  "model.remat": _str(
    "block",
    "what the backward pass recomputes: each block, all of it but the projections' products, or nothing",
    ("block", "dots", "none"),
  ),
  "model.attention": _str(
    "auto",
    "attention of the update; auto picks by platform",
    ("auto", "blockwise", "splash", "cudnn", "reference"),
  ),
  "model.logprob_chunk": _int(256, "answer positions whose logits exist at one time", low=1),
  # data
  "data.corpus": _str("quickstart", "reader of the training questions (asc_jax/data/corpora)"),
  "data.path": _str(
    None, "file or folder of the corpus in its public format; None for packaged ones", optional=True
  ),
  "data.batch_size": _int(
    2, "questions a step, over all hosts (paper: unknown)", low=1, high=65_536
  ),
  "data.prompt_buckets": Field(
    (384,), "prompt lengths in tokens to which prompts are padded; each compiles once", tuple
  ),
  "data.overlong": _str(
    "cut",
    "a prompt longer than the largest bucket: cut its last passages, or drop the question; both are counted",
    ("cut", "drop"),
  ),
  "data.instruction": _str(
    "Answer the question in your own words, in two or three complete sentences, using only the passages.",
    "system text of the prompt (paper: unknown)",
  ),
  "data.max_passages": _int(
    None, "passages kept a question, in corpus order; None keeps all", low=1, optional=True
  ),
  "data.passage_words": _int(
    None,
    "words of passages kept a question, whole passages by lexical rank (ELI5); None keeps all",
    low=1,
    optional=True,
  ),
  "data.split": _str(
    "train",
    "the committed split's part to train on (asc_jax/data/splits.py); all: the whole file",
    ("train", "all"),
  ),
  "data.system_role": _bool(
    True,
    "send the instruction as a system message; False puts it in front of the question, for templates without that role",
  ),
  # rollout
  "rollout.group_size": _int(8, "answers a question (paper: 8)", low=1, high=4096),
  "rollout.max_tokens": _int(48, "tokens an answer (paper: unknown)", low=1, high=MAX_TOKENS),
  "rollout.temperature": _float(
    0.7, "sampling temperature, 0 is greedy (paper: unknown)", high=10.0
  ),
  "rollout.top_k": _int(0, "keep the k likeliest tokens; 0 keeps all"),
  "rollout.top_p": _float(
    1.0, "keep the likeliest tokens that hold this much probability", low=1e-6, high=1.0
  ),
  "rollout.truncated": _str(
    "keep",
    "an answer cut off by max_tokens: keep it, mask its last sentence's tokens, or drop the answer from the loss. Its unfinished sentence earns nothing in any case",
    ("keep", "mask", "drop"),
  ),
  "rollout.is_cap": _float(
    None,
    "cap of the importance weight exp(logp - sampler's logp) where the sampler is of lower precision; None: no weight",
    low=1.0,
    optional=True,
  ),
  # text
  "text.copy_ngram": _int(5, "words of a verbatim match (paper: 5)", low=1),
  "text.copy_threshold": _float(
    0.5, "masked share from which a sentence counts as copied (paper: unknown)", high=1.0
  ),
  "text.trailing": _str(
    "sentence",
    "who owns the white space after a sentence and the end-of-answer token (paper: unknown)",
    ("sentence", "none"),
  ),
  "text.empty_answer": _str(
    "sentence",
    "an answer without sentences counts as one uncredited sentence, or as none",
    ("sentence", "none"),
  ),
  # checker
  "checker.name": _str("minilm", "the reward's instrument (asc_jax/checkers)"),
  "checker.path": _str(None, "its checkpoint folder; None for packaged ones", optional=True),
  "checker.threshold": _float(
    0.5, "supported iff P(supported) is above this (MiniCheck: 0.5)", high=1.0
  ),
  "checker.score_copied": _bool(
    True, "score copied sentences too; False saves time, and R is then absent"
  ),
  "checker.prompt": _str(
    None,
    "file with the system prompt (bespoke) or the prompt (judge); None: this project's own",
    optional=True,
  ),
  "checker.adapter": _str(
    None, "folder of a LoRA adapter in peft's layout, on top of the judge's weights", optional=True
  ),
  "checker.label": _str(
    None,
    "name or index of the class that means supported (nli); None: found by its name",
    optional=True,
  ),
  "checker.head": _str(
    None,
    "twin of a packaged checker (minilm, smollm2): a, the reward's, or b, held out; None: a",
    optional=True,
  ),
  "checker.dtype": _str(
    None,
    "compute type and weights of a decoder checker (bespoke, judge, gemma_judge, smollm2); None: float32",
    ("float32", "bfloat16"),
    optional=True,
  ),
  "checker.devices": _str(
    None,
    "devices that it computes on, as numbers from 0 with commas; None: the policy's",
    optional=True,
  ),
  "checker.cache": _str(
    None, "SQLite file in which scores are kept and looked up; None: no cache", optional=True
  ),
  "checker.tokens_per_batch": _int(
    None, "tokens that one call of its model reads; None: the instrument's own", 32, optional=True
  ),
  # credit
  "credit.unit": _str(
    "sentence",
    "what earns reward: each sentence its credit, or the answer its mean credit (R, where only the last of the three tests is on)",
    ("sentence", "answer"),
  ),
  "credit.authored": _bool(True, "a copied sentence earns nothing"),
  "credit.vacuous": _bool(True, "a sentence that the question alone supports earns nothing"),
  "credit.supported": _bool(True, "a sentence that the passages do not support earns nothing"),
  "credit.copy_weight": _float(
    0.0, "lambda of the copy penalty, R - lambda * Copy, answer rewards only"
  ),
  # advantage
  "advantage.ddof": _int(0, "0 population std, 1 sample std (paper: unknown)", high=1),
  "advantage.eps": _float(1e-6, "added to the std"),
  "advantage.baseline": _str(
    "mean", "answer rewards: the group's mean, or leave-one-out (RLOO)", ("mean", "loo")
  ),
  "advantage.scale": _str("std", "divide by the std, or not (Dr. GRPO)", ("std", "none")),
  # loss
  "loss.beta": _float(0.04, "weight of the KL to the reference (paper: 0.04)"),
  "loss.clip_low": _float(0.2, "the ratio's lower clip is 1 - clip_low (GRPO: 0.2)", high=1.0),
  "loss.clip_high": _float(0.2, "the ratio's upper clip is 1 + clip_high (GRPO: 0.2)"),
  "loss.normalise": _str(
    "answer", "answer: GRPO's; token: DAPO's; constant: Dr. GRPO's", ("answer", "token", "constant")
  ),
  "loss.constant": _float(
    None, "tokens an answer counts as under normalise=constant", low=1.0, optional=True
  ),
  # optimizer
  "optimizer.learning_rate": _float(1e-6, "peak learning rate of AdamW (paper: 1e-6)"),
  "optimizer.schedule": _str("constant", "after the warm-up", ("constant", "linear", "cosine")),
  "optimizer.warmup_steps": _int(36, "linear warm-up, in updates (paper: 36)"),
  "optimizer.b1": _float(0.9, "Adam's first decay", high=0.999999),
  "optimizer.b2": _float(0.999, "Adam's second decay", high=0.999999),
  "optimizer.eps": _float(1e-8, "Adam's epsilon"),
  "optimizer.weight_decay": _float(0.0, "decoupled weight decay, a step at learning rate 1"),
  "optimizer.clip_norm": _float(1.0, "global norm to which gradients are clipped; 0 does not clip"),
  # sft
  "sft.answers": _int(4, "reference answers a question, its first that fit", low=1),
  # train
  "train.objective": _str(
    "credit",
    "what is learned from: credit of sampled answers, pairs of them (dpo), or the corpus's own answers (sft)",
    ("credit", "dpo", "sft"),
  ),
  "train.steps": _int(8, "batches of rollouts"),
  "train.epochs": _float(
    None, "if set, steps follow from it, at least one (paper: 1)", 1e-6, 1e6, optional=True
  ),
  "train.updates_per_batch": _int(1, "updates a batch of rollouts (paper: 1)", low=1),
  "train.micro_batch": _int(
    None,
    "questions a forward and backward pass; gradients add up exactly; None: the whole batch",
    low=1,
    optional=True,
  ),
  "train.checkpoint_every": _int(4, "steps between checkpoints; 0 saves only the last"),
  "train.keep": _int(2, "checkpoints kept", low=1),
  "train.eval_every": _int(0, "steps between evaluations; 0: before and after only"),
  "train.max_bad_steps": _int(
    3, "updates skipped for a non-finite loss or gradient before the run stops", low=1
  ),
  "train.min_nonzero_groups": _float(
    0.0,
    "a run whose mean share of groups with non-zero advantages is below this exits with status 1",
    high=1.0,
  ),
  "train.allow_config_change": _bool(
    False, "resume although the config differs from the checkpoint's"
  ),
  "train.wandb": _str(
    None, "project of Weights & Biases to log to as well; needs the package wandb", optional=True
  ),
  "train.compilation_cache": _str(
    "auto",
    "folder of the persistent compilation cache; auto: on for accelerators, off on CPUs; none: off",
  ),
  # dpo
  "dpo.pairs": _str(
    None, "file of pairs (asc_jax.tools.make_pairs), for train.objective=dpo", optional=True
  ),
  "dpo.beta": _float(
    0.1, "how strongly DPO holds the policy to the reference (paper: unknown; DPO's own: 0.1)"
  ),
  "dpo.copy_tolerance": _float(
    None,
    "largest difference in Copy within a pair (paper: unknown); None: pairs are not matched on Copy",
    high=1.0,
    optional=True,
  ),
  # mesh
  "mesh.data": _int(1, "devices over questions; -1 takes what is left", low=-1),
  "mesh.fsdp": _int(1, "devices over which parameters are sharded and questions split", low=-1),
  "mesh.tensor": _int(1, "devices over heads, MLP width and vocabulary", low=-1),
  # corver (the paper is arXiv 2605.29648)
  "corver.on": _bool(
    False, "reward by corpus counts, answer match and format instead of by the credit above"
  ),
  "corver.index": _str(
    None,
    "folder of the corpus index (asc_jax.tools.corver_index), or a small file of documents, indexed at the start",
    optional=True,
  ),
  "corver.tokenizer": _str(
    None, "tokenizer of an index of subword tokens; None for an index of words", optional=True
  ),
  "corver.token_dtype": _str("u16", "of an index of subword tokens", ("u8", "u16", "u32")),
  "corver.version": _int(4, "of an index of subword tokens; 5 is reversed", low=4, high=5),
  "corver.fold_case": _bool(False, "look words up whatever their case"),
  "corver.window": _int(1000, "tokens between two words (paper: 1,000)", low=1),
  "corver.max_clause_freq": _int(
    500_000, "a word that occurs more often is sampled (paper: 500,000)", low=1
  ),
  "corver.threads": _int(2, "look-ups at once", low=1, high=1024),
  "corver.cache_size": _int(100_000, "distinct look-ups remembered; 0 remembers none"),
  "corver.verifier": _str(
    "corpus",
    "who rewards sentences: the corpus, or the checker (+1 where the question's passages support it, else -1)",
    ("corpus", "checker"),
  ),
  "corver.credit": _str(
    "return",
    "what a sentence's reward does: it is added to its tokens' return, or only its sign turns the answer's advantage (FSPO)",
    ("return", "sign"),
  ),
  "corver.extractor": _str(
    "rules", "who finds the facts of a sentence: rules, or the checkpoint folder of a model"
  ),
  "corver.extractor_prompt": _str(
    None,
    "file of the extractor's prompt, {} for the sentence; None for the packaged one",
    optional=True,
  ),
  "corver.extractor_tokens": _int(
    256, "tokens that the extractor may write a sentence", low=1, high=MAX_TOKENS
  ),
  "corver.rule": _str(
    "first_valid",
    "what is looked up: the first valid triplet, all (the lowest count decides), or the first with its relation's word, where 0 costs a level",
    ("first_valid", "min", "relcheck"),
  ),
  "corver.levels": _str(
    "four_level",
    "count:reward pairs, four_level (0:-0.3,1:-0.1,5:0,20:0.1, the public code's), or three_level= with values (the paper's are unknown)",
  ),
  "corver.no_query": _float(0.0, "reward of a sentence with nothing to look up", low=None),
  "corver.unit": _str(
    "sentence",
    "tokens take their sentence's corpus reward, or their completion's mean (ablation A3)",
    ("sentence", "answer"),
  ),
  "corver.local_weight": _float(1.0, "weight of the corpus reward (0 is ablation A1)"),
  "corver.judge_weight": _float(1.0, "weight of the answer score (0 is ablation A2)"),
  "corver.format_weight": _float(1.0, "weight of the format score"),
  "corver.correct": _float(2.0, "score of an answer that holds an alias", low=None),
  "corver.wrong": _float(-1.0, "score of one that does not", low=None),
  "corver.refused": _float(-1.0, "score of one that declines", low=None),
  "corver.formatted": _float(1.0, "score of a completion with both blocks", low=None),
  "corver.unformatted": _float(-1.0, "score of any other", low=None),
  "corver.think_tag": _str("think", "tag of the thinking block"),
  "corver.answer_tag": _str("answer", "tag of the answer block"),
  "corver.mean_tolerance": _float(
    1e-6,
    "no advantage where the answers' mean returns agree to this; None: no such rule",
    optional=True,
  ),
  "corver.advantage_clip": _float(5.0, "largest absolute advantage; None: no limit", optional=True),
  "corver.min_nonzero_tokens": _float(
    0.0,
    "a run whose mean share of tokens with non-zero advantages is below this exits with status 1",
    high=1.0,
  ),
  "corver.paper_exact": _bool(False, "switch both guards off, as in the paper"),
  "corver.pass_rates": _str(
    None,
    "pass-rate file of the learning zone, continued where it ends; None: no filter (ablation A4)",
    optional=True,
  ),
  "corver.zone_samples": _int(16, "answers drawn a question for it (paper: 16)", low=2, high=4096),
  "corver.zone_temperature": _float(0.7, "their sampling temperature (paper: 0.7)", high=10.0),
  "corver.zone_top_p": _float(0.95, "their top-p (paper: 0.95)", low=1e-6, high=1.0),
  "corver.zone_low": _int(1, "fewest correct answers of a question that is kept (paper: 1)"),
  "corver.zone_high": _int(15, "most of them (paper: 15)"),
  "corver.anchors": _int(0, "mastered questions to add (paper: 1,000 for small models)"),
  # eval
  "eval.corpus": _str(
    None, "reader of the evaluation questions; None: data.corpus's", optional=True
  ),
  "eval.path": _str(None, "its file or folder", optional=True),
  "eval.split": _str(
    "eval", "the committed split's part to evaluate on; all: the whole file", ("eval", "all")
  ),
  "eval.questions": _int(8, "questions evaluated, the split's first by hash; 0: no evaluation"),
  "eval.answers": _int(1, "answers a question", low=1, high=4096),
  "eval.seed": _int(0, "seed of the sampled answers, the same for every run", high=2**32 - 1),
  "eval.temperature": _float(0.0, "sampling temperature, 0 is greedy", high=10.0),
  "eval.max_tokens": _int(
    None, "tokens an answer; None: rollout.max_tokens", low=1, high=MAX_TOKENS, optional=True
  ),
}


# What sets each method apart from the defaults above, which are ASC's.
_ANSWER_R = {"credit.unit": "answer", "credit.authored": False, "credit.vacuous": False}
METHODS: dict[str, dict[str, Any]] = {
  "base": {"train.steps": 0, "train.epochs": None},
  "asc": {},
  "asc_answer": {"credit.unit": "answer"},
  "asc_without_authored": {"credit.authored": False},
  "asc_without_vacuous": {"credit.vacuous": False},
  "asc_without_supported": {"credit.supported": False},
  "sentence_reward": {"credit.authored": False, "credit.vacuous": False},
  "grpo": {**_ANSWER_R, "loss.beta": 0.0},
  "grpo_kl": _ANSWER_R,
  "copy_penalty": {**_ANSWER_R, "credit.copy_weight": 1.0},
  "rloo": {**_ANSWER_R, "advantage.baseline": "loo", "advantage.scale": "none"},
  "dr_grpo": {
    **_ANSWER_R,
    "advantage.scale": "none",
    "loss.normalise": "constant",
    "loss.constant": 48.0,
    "loss.beta": 0.0,
  },
  "dpo": {"train.objective": "dpo"},
  "dpo_copy_matched": {"train.objective": "dpo", "dpo.copy_tolerance": 0.05},
  "sft": {"train.objective": "sft", "optimizer.schedule": "linear"},
  "corver": {
    "corver.on": True,
    "text.trailing": "none",
    "text.empty_answer": "none",
    "data.instruction": "Think briefly between <think> and </think>, then answer between <answer> and </answer>. If you do not know, say so in the answer.",
    "advantage.eps": 1e-4,
    "advantage.ddof": 1,
  },
}
METHODS["fspo"] = METHODS["corver"] | {"corver.verifier": "checker", "corver.credit": "sign"}


def apply_method(config: config_dict.ConfigDict, method: str) -> config_dict.ConfigDict:
  """Sets `config.method` and the fields that the method's preset differs in.

  Presets come before command-line overrides, so every part can be changed after.
  """
  if method not in METHODS:
    raise UserError(
      f"config.method is one of {', '.join(METHODS)}, not {method!r}{nearest(method, METHODS)}"
    )
  for name in METHODS.get(config.method, ()):
    assign(config, name, FIELDS[name].default)  # the preset that was there leaves nothing behind
  config.method = method
  for name, value in METHODS[method].items():
    assign(config, name, value)
  return config


def default_config(fields: Mapping[str, Field] = FIELDS) -> config_dict.ConfigDict:
  """All `fields` at their defaults, locked against unknown names."""
  config = config_dict.ConfigDict()
  for name, field in fields.items():
    *groups, leaf = name.split(".")
    node = config
    for group in groups:
      if group not in node:
        node[group] = config_dict.ConfigDict()
      node = node[group]
    node[leaf] = config_dict.placeholder(field.type) if field.default is None else field.default
  config.lock()
  return config


def assign(config: config_dict.ConfigDict, name: str, value: Any) -> None:
  """`config.a.b = value` for the name "a.b"."""
  *groups, leaf = name.split(".")
  for group in groups:
    config = config[group]
  config[leaf] = value


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  """{"loss.beta": 0.04, ...}, in the order of the config."""
  flat = {}
  for key, value in config.items():
    if isinstance(value, Mapping | config_dict.ConfigDict):
      flat.update(flatten(value, f"{prefix}{key}."))
    else:
      flat[prefix + key] = value
  return flat


def nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
  """`; did you mean X?` where some name is close, else an empty string."""
  names = list(names)
  leaf = name.rpartition(".")[2]
  same = [n for n in names if n.rpartition(".")[2] == leaf]  # the right field, another group
  close = difflib.get_close_matches(name, same, 1, 0.0) or difflib.get_close_matches(name, names, 1)
  return f"; did you mean {prefix}{close[0]}?" if close else ""


def wanted(field: Field) -> str:
  """What a field takes, in words: `int or None`."""
  name = "true or false" if field.type is bool else field.type.__name__
  if field.type is tuple:
    name = f"a tuple of {type(field.default[0]).__name__}"
  return name + (" or None" if field.optional else "")


def check_value(label: str, value: Any, field: Field) -> None:
  """Raises a UserError that starts with `label` where a value has another type or range."""
  if value is None and field.optional:
    return
  kinds: Any = (int, float) if field.type is float else field.type
  mistaken_bool = isinstance(value, bool) and field.type is not bool
  if mistaken_bool or not isinstance(value, kinds):
    raise UserError(f"{label} takes {wanted(field)}, not {value!r}")
  if field.type is tuple and {type(item) for item in value} - {type(field.default[0])}:
    raise UserError(f"{label} takes {wanted(field)}, not {value!r}")
  if field.type is float and not math.isfinite(value):
    raise UserError(f"{label} must be finite, not {value!r}")
  if field.choices and value not in field.choices:
    raise UserError(
      f"{label} is one of {', '.join(field.choices)}, not {value!r}{nearest(value, field.choices)}"
    )
  low = -math.inf if field.low is None else field.low
  high = math.inf if field.high is None else field.high
  if field.type in (int, float) and not low <= value <= high:
    ends = (f"{end:g}" if isinstance(end, float) else str(end) for end in (low, high))
    raise UserError(f"{label} lies in [{', '.join(ends)}], not {value!r}")


def table(fields: Mapping[str, Field], prefix: str = "") -> str:
  """One line a field: name, default, what it takes, what it means."""
  rows = []
  for name, field in fields.items():
    takes = " | ".join(field.choices) or wanted(field)
    rows.append(f"  {prefix}{name}={field.default}  [{takes}]  {field.help}")
  return "\n".join(rows)


def check_names(config: config_dict.ConfigDict, fields: Mapping[str, Field] = FIELDS) -> None:
  """Raises a UserError where a field is unknown or missing."""
  flat = flatten(config)
  for name in flat:
    if name not in fields:
      raise UserError(f"config.{name} is not a field{nearest(name, fields, 'config.')}")
  for name in fields:
    if name not in flat:
      raise UserError(f"config.{name} is missing; start from asc_jax.config.default_config()")


def validate(config: config_dict.ConfigDict, fields: Mapping[str, Field] = FIELDS) -> None:
  """Checks every field, and for a run's own `FIELDS` the rules between them.

  Raises:
    UserError: naming the field, what it takes and what it was given.
  """
  check_names(config, fields)
  flat = flatten(config)
  for name, field in fields.items():
    check_value(f"config.{name}", flat[name], field)
  if fields is FIELDS:
    _check_rules(config)


def _check_rules(config: config_dict.ConfigDict) -> None:
  buckets = config.data.prompt_buckets
  rising = list(buckets) == sorted(set(buckets))
  if not buckets or not rising or min(buckets) < 2 or max(buckets) > MAX_TOKENS:
    raise UserError(
      f"config.data.prompt_buckets is a rising tuple of token counts from 2 to {MAX_TOKENS}, not "
      f"{buckets!r}"
    )
  if config.loss.normalise == "constant" and config.loss.constant is None:
    raise UserError("config.loss.constant is needed where config.loss.normalise=constant")
  if config.train.micro_batch and config.data.batch_size % config.train.micro_batch:
    raise UserError(
      f"config.train.micro_batch={config.train.micro_batch} does not divide config.data.batch_size={config.data.batch_size}"
    )
  projections = PROJECTIONS + DELTA_PROJECTIONS
  for target in map(str.strip, config.model.lora.targets.split(",")):
    if target not in projections:
      raise UserError(
        f"config.model.lora.targets has {target!r}{nearest(target, projections)}; there are {', '.join(projections)}"
      )
  if config.advantage.baseline == "loo" and config.credit.unit != "answer":
    raise UserError("config.advantage.baseline=loo needs config.credit.unit=answer")
  if config.eval.path is not None and config.eval.corpus is None:
    raise UserError("config.eval.path needs config.eval.corpus, the reader of that file")
  if config.credit.copy_weight and config.credit.unit != "answer":
    raise UserError("config.credit.copy_weight needs config.credit.unit=answer")
  if config.method not in METHODS:
    raise UserError(
      f"config.method is one of {', '.join(METHODS)}, not {config.method!r}{nearest(config.method, METHODS)}"
    )
  if not config.checker.score_copied and not config.credit.authored:
    raise UserError(
      "config.checker.score_copied=False needs config.credit.authored=True: copied sentences would go unscored"
    )
  if config.rollout.temperature == 0 and config.train.steps:
    raise UserError(
      "config.rollout.temperature=0 draws the same answer every time; training needs one above 0"
    )
  _check_corver(config)
  if config.rollout.group_size == 1 and config.credit.unit == "answer" and config.train.steps:
    raise UserError(
      "config.rollout.group_size=1 leaves an answer nothing to be compared with; "
      "config.credit.unit=answer needs at least 2"
    )
  if [config.mesh[a] for a in ("data", "fsdp", "tensor")].count(-1) > 1:
    raise UserError("config.mesh has more than one -1")
  if 0 in (config.mesh.data, config.mesh.fsdp, config.mesh.tensor):
    raise UserError("config.mesh axes are at least 1, or -1 for what is left")


def _check_corver(config: config_dict.ConfigDict) -> None:
  own = config.corver
  if not own.zone_low <= own.zone_high <= own.zone_samples:
    raise UserError(
      f"config.corver.zone_low={own.zone_low}, zone_high={own.zone_high} and "
      f"zone_samples={own.zone_samples} must rise"
    )
  tags = (own.think_tag, own.answer_tag)
  if not all(map(str.isidentifier, tags)) or tags[0] == tags[1]:
    raise UserError(
      f"config.corver.think_tag={own.think_tag} and answer_tag={own.answer_tag} must be two words"
    )
  if own.on and config.rollout.group_size == 1 and config.train.steps:
    raise UserError(
      "config.rollout.group_size=1 leaves a completion nothing to be compared with; "
      "config.corver.on needs at least 2"
    )
