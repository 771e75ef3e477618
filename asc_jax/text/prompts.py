"""Prompts as token ids: one path for sampling, update, DPO, judge and evaluation.

The start token, `bos`: a model wants one iff its tokenizer adds one to plain text
or its chat template writes one. Both kinds of prompt then get exactly one:

| template writes bos | tokenizer adds bos | chat | plain |
|---------------------|--------------------|------|-------|
| yes                 | yes                | 1    | 1     |
| yes                 | no                 | 1    | 1     |
| no                  | yes                | 1    | 1     |
| no                  | no                 | 0    | 0     |

A template "writes" a start token that it puts in front of the conversation and
nowhere else; SmolLM2's `bos`, which opens every message, is none.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jinja2

from asc_jax.types import Example, Passage, UserError

# Tokens that end a turn, or a text, in the families that are read here.
_END_TOKENS = (
  "<|im_end|>",  # Qwen, SmolLM2, InternLM2
  "<|eot_id|>",  # Llama 3
  "<end_of_turn>",  # Gemma 2 and 3
  "<turn|>",  # Gemma 4
  "<eos>",
  "<|end_of_text|>",
  "<|endoftext|>",
)


class PromptResult(NamedTuple):
  """One question's prompt.

  Attributes:
    ids: the token ids, generation prompt included.
    text: what they decode to, special tokens included.
    example: the question with those passages, as cut, that the prompt holds.
    cut: passages left out or shortened to make it fit.
  """

  ids: list[int]
  text: str
  example: Example
  cut: int


def encode_chat(
  tokenizer, messages: Sequence[Mapping[str, str]], *, thinking: bool = False
) -> list[int]:
  """The ids of a conversation, up to where the assistant's next answer begins.

  Args:
    tokenizer: a transformers tokenizer with a chat template.
    messages: dicts of `role` and `content`; control tokens in a content are text, see `as_text`.
    thinking: whether templates that can switch thinking off leave it on.

  Raises:
    UserError: there is no chat template, or it refuses the messages.
  """
  messages = [
    {**message, "content": as_text(tokenizer, message["content"])} for message in messages
  ]
  return _encode(tokenizer, _render(tokenizer, messages, thinking))


def encode_plain(tokenizer, text: str) -> list[int]:
  """The ids of a text without a chat template, with a start token where the model wants one."""
  return _encode(tokenizer, as_text(tokenizer, text))


def encode_text(tokenizer, text: str) -> list[int]:
  """The ids of a text that stands by itself, neither started nor ended."""
  return tokenizer(as_text(tokenizer, text), add_special_tokens=False)["input_ids"]


def as_text(tokenizer, text: str) -> str:
  """`text` with a space inside whatever spells a control token, so that it is read as text.

  Otherwise a passage or an answer that holds `<|im_end|>` would end the message that it stands
  in, and could go on in the reader's name.
  """
  control = _control_tokens(tokenizer)
  return control.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)


def question_prompt(
  tokenizer,
  example: Example,
  *,
  instruction: str,
  max_tokens: int,
  overlong: str = "cut",
  system_role: bool = True,
  max_passages: int | None = None,
) -> PromptResult | None:
  """The prompt of a question with its passages.

  Args:
    tokenizer: a transformers tokenizer with a chat template.
    example: the question.
    instruction: what to do with it; empty for none.
    max_tokens: the longest prompt allowed.
    overlong: "cut" leaves out the last passages until it fits, and if the first
      alone does not, shortens it at a word; "drop" gives up.
    system_role: send the instruction as a system message, not in front of the
      question.
    max_passages: passages kept before anything is cut, in order; None keeps all.

  Returns:
    The prompt, or None where it is dropped: it does not fit, and with "cut", not
    even with one word of one passage.
  """
  passages = example.passages[:max_passages]

  def attempt(kept: Sequence[Passage]) -> PromptResult | None:
    messages = question_messages(example.question, kept, instruction, system_role)
    ids = encode_chat(tokenizer, messages)
    if len(ids) > max_tokens:
      return None
    shown = dataclasses.replace(example, passages=tuple(kept))
    unchanged = sum(a == b for a, b in zip(kept, passages, strict=False))
    return PromptResult(ids, tokenizer.decode(ids), shown, len(passages) - unchanged)

  whole = attempt(passages)
  if whole or overlong == "drop" or not passages:
    return whole
  for count in range(len(passages) - 1, 0, -1):
    if shorter := attempt(passages[:count]):
      return shorter
  title, text = passages[0]
  words = text.split(" ")
  best, low, high = None, 1, len(words) - 1  # words of the first passage
  while low <= high:
    middle = (low + high) // 2
    result = attempt([Passage(title, " ".join(words[:middle]))])
    best, low, high = (result, middle + 1, high) if result else (best, low, middle - 1)
  return best


def question_messages(
  question: str, passages: Sequence[Passage], instruction: str, system_role: bool
) -> list[dict[str, str]]:
  """Passages first, the question last, as one user message."""
  parts = []
  for number, passage in enumerate(passages, start=1):
    heading = f"Passage {number}: {passage.title}" if passage.title else f"Passage {number}:"
    parts.append(f"{heading}\n{passage.text}")
  parts.append(f"Question: {question}" if passages else question)
  if instruction and not system_role:
    parts.insert(0, instruction)
  messages = [{"role": "user", "content": "\n\n".join(parts)}]
  if instruction and system_role:
    messages.insert(0, {"role": "system", "content": instruction})
  return messages


def stop_ids(tokenizer, generation_config: Any = None) -> tuple[int, ...]:
  """The ids that end an answer, in rising order.

  The tokenizer's end token, the generation config's, and the ends of turn that the
  vocabulary has.

  Args:
    tokenizer: a transformers tokenizer.
    generation_config: a transformers GenerationConfig or its dict, if there is one.

  Raises:
    UserError: there is none; sampling would never stop.
  """
  if isinstance(generation_config, Mapping):
    found = generation_config.get("eos_token_id")
  else:
    found = getattr(generation_config, "eos_token_id", None)
  listed = found if isinstance(found, Sequence) else [found]
  added = tokenizer.get_added_vocab()
  ends = {tokenizer.eos_token_id, *listed, *(added.get(token) for token in _END_TOKENS)} - {None}
  if not ends:
    raise UserError(
      "the tokenizer has no end-of-sequence token; set eos_token in its tokenizer_config.json"
    )
  return tuple(sorted(int(i) for i in ends))


def end_of_turn(tokenizer, stops: Sequence[int]) -> int:
  """The one of `stops` that ends an assistant's message in the model's own chats."""
  ids = {token: tokenizer.convert_tokens_to_ids(token) for token in _END_TOKENS}
  return next((i for i in ids.values() if i in stops), stops[0])


def _encode(tokenizer, text: str) -> list[int]:
  ids = tokenizer(text, add_special_tokens=False)["input_ids"]
  if _wants_bos(tokenizer) and ids[:1] != [tokenizer.bos_token_id]:
    ids = [tokenizer.bos_token_id, *ids]
  return ids


@functools.lru_cache(maxsize=8)
def _control_tokens(tokenizer) -> re.Pattern[str]:
  found = [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
  longest_first = sorted((t for t in found if len(t) > 1), key=len, reverse=True)
  return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")  # (?!) matches nothing


@functools.lru_cache(maxsize=8)
def _wants_bos(tokenizer) -> bool:
  bos = tokenizer.bos_token_id
  if bos is None:
    return False
  if tokenizer("a")["input_ids"][:1] == [bos]:
    return True
  if not tokenizer.chat_template:
    return False
  turns = [{"role": role, "content": "a"} for role in ("user", "assistant", "user")]
  text = _render(tokenizer, turns, thinking=False)
  return text.startswith(tokenizer.bos_token) and text.count(tokenizer.bos_token) == 1


def _render(tokenizer, messages: Sequence[Mapping[str, str]], thinking: bool) -> str:
  if not tokenizer.chat_template:
    raise UserError(
      f"the tokenizer {tokenizer.name_or_path} has no chat template; use an instruction-tuned checkpoint"
    )
  try:
    return tokenizer.apply_chat_template(
      list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=thinking
    )
  except jinja2.TemplateError as error:
    raise UserError(
      f"the chat template of {tokenizer.name_or_path} refuses the prompt ({error}); "
      "where it has no system role, set config.data.system_role=False"
    ) from error
