"""Prompts: one start token at most, one path for all, passages cut whole."""

import dataclasses

import pytest
import real_tokenizers
import tokenizers
import transformers

from asc_jax.text import prompts
from asc_jax.types import Example, Passage, UserError

HI = [{"role": "user", "content": "Hi"}]
TURNS = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}<|im_start|>"


def toy(*, writes: bool, adds: bool, template: str = TURNS):
  """A byte-level tokenizer whose template writes, and whose encoding adds, a start token."""
  alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
  vocabulary = {character: i for i, character in enumerate(alphabet)}
  core = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
  core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
  core.decoder = tokenizers.decoders.ByteLevel()
  core.add_special_tokens(["<s>", "</s>", "<|im_start|>", "<|im_end|>"])
  if adds:
    pair = ("<s>", core.token_to_id("<s>"))
    core.post_processor = tokenizers.processors.TemplateProcessing(
      single="<s> $A", pair="<s> $A <s> $B", special_tokens=[pair]
    )
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=core, bos_token="<s>", eos_token="</s>", add_bos_token=adds
  )
  tokenizer.chat_template = ("{{ bos_token }}" if writes else "") + template
  return tokenizer


@pytest.mark.parametrize(
  ("writes", "adds", "chat", "plain"),
  [(True, True, 1, 1), (True, False, 1, 1), (False, True, 1, 1), (False, False, 0, 0)],
)
def test_start_tokens_of_all_eight_cells(writes, adds, chat, plain):
  tokenizer = toy(writes=writes, adds=adds)
  assert tokenizer("Hi")["input_ids"].count(tokenizer.bos_token_id) == adds
  for ids, expected in (
    (prompts.encode_chat(tokenizer, HI), chat),
    (prompts.encode_plain(tokenizer, "Hi"), plain),
  ):
    assert ids.count(tokenizer.bos_token_id) == expected
    assert ids[:1].count(tokenizer.bos_token_id) == expected
    assert tokenizer.decode(ids).replace("<s>", "").count("Hi") == 1


def test_a_token_that_opens_every_message_is_no_start_token():
  tokenizer = toy(writes=False, adds=False)
  tokenizer.bos_token = "<|im_start|>"
  assert prompts.encode_plain(tokenizer, "Hi") == tokenizer("Hi")["input_ids"]
  text = tokenizer.decode(prompts.encode_chat(tokenizer, HI))
  assert text == "<|im_start|>Hi<|im_end|><|im_start|>"


def test_llama_3_has_one_start_token():
  tokenizer = real_tokenizers.load("llama3")
  ids = prompts.encode_chat(tokenizer, HI)
  begin, header = 128000, 128006
  assert ids[:2] == [begin, header] and ids.count(begin) == 1
  assert tokenizer.decode(ids) == (
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
  )
  assert prompts.encode_plain(tokenizer, "Hi")[0] == begin


@pytest.mark.parametrize(
  ("name", "beginning"),
  [
    ("gemma3", "<bos><start_of_turn>user\nHi"),
    ("qwen3", "<|im_start|>user\nHi"),
    ("smollm2", "<|im_start|>system\n"),
  ],
)
def test_other_families(name, beginning):
  tokenizer = real_tokenizers.load(name)
  text = tokenizer.decode(prompts.encode_chat(tokenizer, HI))
  assert text.startswith(beginning) and text.count("<bos>") == (name == "gemma3")


@pytest.mark.parametrize("name", real_tokenizers.NAMES)
def test_control_tokens_in_a_text_are_text(name):
  tokenizer = real_tokenizers.load(name)
  controls = [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
  forged = "Hi" + "".join(controls) + "Hi" + controls[0][0] + controls[0] + controls[-1][-1]
  assert tokenizer.decode(prompts.encode_text(tokenizer, forged)).replace(" ", "") == (
    forged.replace(" ", "")
  )
  turn = prompts.encode_chat(tokenizer, HI)
  read = prompts.encode_chat(tokenizer, [{"role": "user", "content": forged}])
  for ids in (read, prompts.encode_text(tokenizer, forged)):
    for id_ in set(tokenizer.all_special_ids) | set(map(tokenizer.convert_tokens_to_ids, controls)):
      assert ids.count(id_) == (turn.count(id_) if ids is read else 0)
  assert prompts.as_text(tokenizer, "a <b> [c] </d> |e|") == "a <b> [c] </d> |e|"


def test_thinking_is_off_unless_asked_for():
  tokenizer = real_tokenizers.load("qwen3")
  off = tokenizer.decode(prompts.encode_chat(tokenizer, HI))
  on = tokenizer.decode(prompts.encode_chat(tokenizer, HI, thinking=True))
  assert off.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
  assert on.endswith("<|im_start|>assistant\n")


EXAMPLE = Example(
  id="q1",
  corpus="toy",
  question="When did it open?",
  passages=tuple(Passage(f"T{i}", f"one two three {'x' * 40}.") for i in range(4)),
)


def prompt(max_tokens, example=EXAMPLE, **options):
  tokenizer = toy(writes=True, adds=True)
  options = {"instruction": "Use the passages.", **options}
  return prompts.question_prompt(tokenizer, example, max_tokens=max_tokens, **options)


def test_a_prompt_that_fits_is_whole():
  found = prompt(1000)
  assert found.example == EXAMPLE and found.cut == 0
  assert found.example.passages == EXAMPLE.passages
  text = found.text
  assert text.startswith("<s><|im_start|>Use the passages.<|im_end|><|im_start|>Passage 1: T0\none")
  assert text.endswith("Question: When did it open?<|im_end|><|im_start|>")
  assert found.ids == toy(writes=True, adds=True)(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kept", [3, 2, 1])
def test_the_last_passages_go_first_and_whole(kept):
  fits = len(prompt(1000, max_passages=kept).ids)
  found = prompt(fits)
  assert found.example.passages == EXAMPLE.passages[:kept]
  assert found.cut == 4 - kept and len(found.ids) == fits
  assert prompt(len(prompt(1000).ids) - 1, overlong="drop") is None


def test_one_passage_too_long_is_cut_at_a_word():
  fits = len(prompt(1000, max_passages=1).ids)
  found = prompt(fits - 1)
  assert found.example.passages == (Passage("T0", "one two three"),)
  assert found.cut == 4  # three left out, one shortened
  assert "three" in found.text and "xxx" not in found.text
  shorter = prompt(len(found.ids) - 1)
  assert shorter.example.passages == (Passage("T0", "one two"),)


def test_a_prompt_never_becomes_empty_silently():
  """princeton-nlp/ALCE#24: five passages of 3,000 tokens, a limit of 512."""
  long = tuple(Passage("", "word " * 600) for _ in range(5))
  found = prompt(512, example=dataclasses.replace(EXAMPLE, passages=long))
  assert found.cut == 5 and 500 < len(found.ids) <= 512
  assert found.example.passages[0].text.startswith("word word")
  assert prompt(20) is None  # not even one word fits
  assert prompt(20, example=dataclasses.replace(EXAMPLE, passages=())) is None


def test_without_a_system_role_the_instruction_opens_the_user_message():
  text = prompt(1000, system_role=False).text
  assert text.startswith("<s><|im_start|>Use the passages.\n\nPassage 1: T0\n")
  assert "Use" not in prompt(1000, instruction="").text


def test_a_question_without_passages_is_the_question():
  found = prompt(1000, example=dataclasses.replace(EXAMPLE, passages=()), instruction="")
  assert found.text == "<s><|im_start|>When did it open?<|im_end|><|im_start|>"


def test_refusing_templates_name_the_remedy():
  refuses = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
  )
  tokenizer = toy(writes=True, adds=False, template=refuses + TURNS)
  with pytest.raises(UserError, match="system_role=False"):
    prompts.question_prompt(tokenizer, EXAMPLE, instruction="Go.", max_tokens=1000)
  tokenizer.chat_template = None
  with pytest.raises(UserError, match="no chat template"):
    prompts.encode_chat(tokenizer, HI)


@pytest.mark.parametrize(
  ("name", "config", "expected"),
  [
    ("smollm2", None, ["<|endoftext|>", "<|im_end|>"]),
    ("qwen3", {"eos_token_id": [151645, 151643]}, ["<|endoftext|>", "<|im_end|>"]),
    ("llama3", None, ["<|end_of_text|>", "<|eot_id|>"]),
    (
      "llama3",
      {"eos_token_id": 128008},
      ["<|end_of_text|>", "<|reserved_special_token_4|>", "<|eot_id|>"],
    ),
    ("gemma3", transformers.GenerationConfig(eos_token_id=[1, 106]), ["<eos>", "<end_of_turn>"]),
  ],
)
def test_stop_ids(name, config, expected):
  tokenizer = real_tokenizers.load(name)
  found = prompts.stop_ids(tokenizer, config)
  assert sorted(tokenizer.convert_ids_to_tokens(list(found))) == sorted(expected)
  assert list(found) == sorted(found)


def test_no_stop_token_is_an_error():
  tokenizer = toy(writes=False, adds=False)
  plain = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE())
  )
  assert prompts.stop_ids(tokenizer) == tuple(
    sorted(tokenizer.convert_tokens_to_ids(["</s>", "<|im_end|>"]))
  )
  with pytest.raises(UserError, match="eos_token"):
    prompts.stop_ids(plain)
