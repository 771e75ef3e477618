"""The page is read and used in a real browser, by pointer and by keyboard."""

import json
import pathlib
import random
import re
import time

import chromium
import pytest
import synthetic_records as synthetic

from asc_jax.evaluation import viewer
from asc_jax.types import UserError

AXE = pathlib.Path(__file__).parents[2] / ".cache/node_modules/axe-core/axe.min.js"
STEPS = [
  row
  for seed, (step, copying) in enumerate([(0, 0.5), (4, 0.3), (8, 0.1)])
  for row in synthetic.realistic(random.Random(seed), 12, step=step, copying=copying, group=2)
]
ONE = synthetic.realistic(random.Random(0), 12)


@pytest.fixture(scope="module")
def page():
  if chromium.find() is None:
    pytest.skip("needs Chromium (Debian: apt-get install chromium)")
  with chromium.Page() as opened:
    yield opened


@pytest.fixture
def show(page, tmp_path):
  """show(records, **window) opens them and returns the processor seconds it took."""

  def opened(rows, *, width=1400, **window):
    path = tmp_path / "viewer.html"
    viewer.write(path, rows, "A test")
    page.events.clear()
    return page.open(path.as_uri(), width=width, **window)

  yield opened
  bad = [e for e in page.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
  assert not bad, bad


def counted(page):
  questions, answers = re.match(
    r"(\d+) of \d+ questions, (\d+) answers",
    page.evaluate("document.querySelector('#count').value"),
  ).groups()
  return int(questions), int(answers)


def answers_in(rows, test):
  return sum(any(test(viewer.state(s, "minilm"), s) for s in r["sentences"]) for r in rows)


def test_states_follow_the_scores():
  def one(supported, vacuous, copied=False):
    return synthetic.sentence("It.", copied=copied, scores={"minilm": (supported, vacuous)})

  assert viewer.state(one(0.9, 0.1), "minilm") == "supported"
  assert viewer.state(one(0.9, None), "minilm") == "supported"
  assert viewer.state(one(0.9, 0.6), "minilm") == "vacuous"
  assert viewer.state(one(0.5, 0.6), "minilm") == "unsupported"
  assert viewer.state(one(0.9, 0.6, copied=True), "minilm") == "copied"
  assert viewer.state(one(None, None), "minilm") == "unscored"
  assert viewer.state(one(0.9, 0.1), "lexical") == "unscored"


def test_the_page_needs_nothing_but_itself():
  html = viewer.render(ONE, "A test")
  assert not re.search(r"""(?:src|href)=["']?(?:https?:|//)|@import|url\(""", html)
  assert "default-src 'none'" in html
  data = re.search(r'id="data">(.*?)</script>', html).group(1)
  assert json.loads(data)["questions"][0]["question"] == ONE[0]["question"]


def test_no_records_is_an_error_in_one_line():
  with pytest.raises(UserError, match="no records to show"):
    viewer.render([], "A test")


def test_every_sentence_wears_its_state_as_colour_and_mark(page, show):
  show(ONE)
  found = page.evaluate(
    "[...document.querySelectorAll('.s')].map(e => [e.classList[1],"
    " e.querySelector('.sign').textContent, getComputedStyle(e).backgroundColor])"
  )
  looks = {tuple(look) for look in found}
  assert {state for state, _, _ in looks} == {"supported", "copied", "vacuous", "unsupported"}
  assert len({sign for _, sign, _ in looks}) == len({colour for _, _, colour in looks}) == 4
  drawn = [state for state, _, _ in found]
  wanted = [viewer.state(s, "minilm") for row in ONE[:10] for s in row["sentences"]]
  assert drawn[: len(wanted)] == wanted


def test_filters_and_search_narrow_the_answers(page, show):
  show(ONE)
  assert counted(page) == (12, 12)
  page.click("input[value=vacuous]")
  vacuous = answers_in(ONE, lambda state, _: state == "vacuous")
  assert 0 < vacuous < 12 and counted(page) == (vacuous, vacuous)
  page.click("input[value=declines]")
  either = answers_in(ONE, lambda state, s: state == "vacuous" or s["refusal"])
  assert either > vacuous and counted(page) == (either, either)
  page.click("input[value=vacuous]")
  page.click("input[value=declines]")
  page.click("#search")
  page.type("census of 1968")
  time.sleep(0.4)
  assert counted(page) == (4, 4)
  assert page.evaluate("document.querySelector('.passages mark').textContent") == "census of 1968"
  page.type("(((")
  time.sleep(0.4)
  assert counted(page) == (0, 0)
  assert "Nothing matches" in page.evaluate("document.querySelector('#list').textContent")


def test_a_copied_span_leads_to_its_place_and_back(page, show):
  show(ONE)
  page.hover("a.match")
  span = page.evaluate("document.querySelector('a.match').textContent")
  place = "document.querySelector('.passages mark.place')"
  assert page.evaluate(f"{place}.textContent") == span
  tip = page.evaluate("document.querySelector('#tip').innerText")
  copied = next(s for row in ONE for s in row["sentences"] if s["copied"])
  score = f"{copied['scores']['minilm']['supported']:.3f}"
  assert "minilm" in tip and score in tip and "0.500" in tip and span in tip
  page.click("a.match")
  assert page.evaluate(f"document.activeElement === {place}")
  page.press("Escape", 27)
  assert page.evaluate("document.activeElement === document.querySelector('a.match')")
  page.press("Escape", 27)
  assert page.evaluate(f"document.querySelector('#tip').hidden && {place} === null")


def test_the_keyboard_reaches_every_sentence(page, show):
  show(ONE)
  count = page.evaluate("document.querySelector('.answer').querySelectorAll('.s').length")
  page.evaluate("document.querySelector('.s').focus()")
  for number in range(1, count):
    page.press("ArrowRight", 39)
    at = page.evaluate("document.activeElement.dataset.sentence")
    assert at == str(number)
    assert page.evaluate("!document.querySelector('#tip').hidden")
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
  page.press("Home", 36)
  assert page.evaluate("document.activeElement.dataset.sentence") == "0"
  stops = page.evaluate(
    "document.querySelector('.answer').querySelectorAll('.s[tabindex=\"0\"]').length"
  )
  assert stops == 1


def test_steps_stand_side_by_side_or_one_at_a_time(page, show):
  show(STEPS)
  assert counted(page) == (12, 72)
  labels = "[...document.querySelector('article').querySelectorAll('h3')].map(e => e.textContent)"
  assert page.evaluate(labels)[:4] == [
    "step 0 · answer 1",
    "step 4 · answer 1",
    "step 8 · answer 1",
    "step 0 · answer 2",
  ]
  page.click("#together")
  assert counted(page) == (12, 24)
  assert page.evaluate("document.querySelector('#stepname').value") == "step 8"
  page.evaluate("document.querySelector('#step').focus()")
  page.press("ArrowLeft", 37)
  assert page.evaluate("document.querySelector('#stepname').value") == "step 4"
  assert page.evaluate(labels)[:2] == ["step 4 · answer 1", "step 4 · answer 2"]


def test_advantages_show_where_there_are_two_answers(page, show):
  show(ONE)
  assert page.evaluate("document.querySelector('#weighing').hidden")
  show(STEPS)
  weight = "getComputedStyle(document.querySelector('.weight')).display"
  assert page.evaluate(weight) == "none"
  page.click("#weights")
  assert page.evaluate(weight) != "none"
  shown = page.evaluate("[...document.querySelectorAll('.weight')].map(e => e.textContent)")
  assert set(shown) == {"+1.00", "−1.00"}
  page.hover(".s")
  assert "advantage" in page.evaluate("document.querySelector('#tip').innerText")


def test_a_wrong_verdict_on_numbers_can_be_seen(page, show):
  claim = synthetic.sentence(
    "Every well gave between 40 and 50 litres.",
    scores={"minicheck_t5": (0.031, 0.004), "minilm": (0.8, 0.1)},
  )
  passage = {"title": "", "text": "Three wells gave 41, 44 and 48 litres."}
  instruments = {"minicheck_t5": "a1", "minilm": "b2"}
  show(
    [
      synthetic.record(
        "q1",
        [claim],
        passages=[passage],
        reward_instrument="minicheck_t5",
        instruments=instruments,
      )
    ]
  )
  page.hover(".s.unsupported")
  rows = page.evaluate("[...document.querySelectorAll('#tip tbody tr')].map(r => r.innerText)")
  assert [row.split() for row in rows] == [
    ["minicheck_t5", "0.031", "0.004", "0.500"],
    ["minilm", "0.800", "0.100", "0.500"],
  ]


def test_refusals_and_cut_ends_are_labelled(page, show):
  refusal = synthetic.sentence("I cannot tell.", refusal=True)
  cut = synthetic.sentence("It opened in", complete=False)
  show([synthetic.record("q1", [refusal, cut], finished=False)])
  tags = page.evaluate("[...document.querySelectorAll('.tag')].map(e => e.textContent)")
  assert tags == ["declines", "cut off"]
  assert "?" in page.evaluate("document.querySelector('.s.unscored .sign').textContent")


def test_an_answer_without_sentences_says_so(page, show):
  show([synthetic.record("q1", [], answer=" ", words=0)])
  assert "No sentence." in page.evaluate("document.querySelector('.answer').textContent")


def test_an_address_leads_to_its_question_and_scrolling_draws_the_rest(page, show):
  show(ONE)
  drawn = "document.querySelectorAll('article').length"
  assert page.evaluate(drawn) == 10
  page.evaluate("location.hash = '#' + encodeURIComponent('clapnq/clapnq-11')")
  time.sleep(0.3)
  assert page.evaluate(drawn) == 12
  top = page.evaluate("document.querySelectorAll('article')[11].getBoundingClientRect().top")
  assert 0 <= top < 900
  show(ONE)
  page.evaluate("scrollTo(0, document.body.scrollHeight)")
  time.sleep(0.3)
  assert page.evaluate(drawn) == 12


def test_the_exact_prompt_opens(page, show):
  show(ONE)
  page.click("summary")
  time.sleep(0.1)
  assert page.evaluate("document.querySelector('pre').textContent") == ONE[0]["prompt"]
  assert page.evaluate("document.querySelector('.special').textContent") == "<|im_start|>"


def test_the_judge_can_be_changed(page, show):
  show(ONE)
  states = "[...document.querySelectorAll('.s')].map(e => e.classList[1])"
  page.evaluate(
    "(() => { const s = document.querySelector('#instrument'); s.value = 1;"
    " s.dispatchEvent(new Event('change')) })()"
  )
  wanted = [viewer.state(s, "lexical") for row in ONE[:10] for s in row["sentences"]]
  assert page.evaluate(states)[: len(wanted)] == wanted
  assert wanted != [viewer.state(s, "minilm") for row in ONE[:10] for s in row["sentences"]]


def test_offsets_count_characters_not_utf16_units(page, show):
  answer = synthetic.sentence("🌉🌉 Die Brücke öffnete 1932 für den Verkehr.", copied=True)
  row = synthetic.record("q1", [answer, synthetic.sentence("橋は1932年に開通した。")])
  row["passages"] = [{"title": "", "text": "𝒜 Die Brücke öffnete 1932."}]
  match = {"start": 3, "end": 26, "passage": 0, "passage_start": 2, "passage_end": 25}
  assert row["answer"][3:26] == row["passages"][0]["text"][2:25] == "Die Brücke öffnete 1932"
  show([{**row, "matches": [match]}])
  page.hover("a.match")
  assert page.evaluate("document.querySelector('a.match').textContent") == row["answer"][3:26]
  assert page.evaluate("document.querySelector('mark.place').textContent") == row["answer"][3:26]
  text = page.evaluate("document.querySelectorAll('.s')[1].textContent")
  assert text.endswith("橋は1932年に開通した。")


def hostile():
  """One answer of 2,000 sentences, and markup in every text a record holds."""
  attack = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
  )
  items = [synthetic.sentence(f"{attack} {i}.", scores={"minilm": (0.9, 0.1)}) for i in range(2000)]
  row = synthetic.record(
    attack,
    items,
    question=attack,
    prompt=attack,
    corpus="<b>",
    run=attack,
    passages=[{"title": attack, "text": attack}],
    instruments={"minilm": attack},
  )
  return [
    row,
    synthetic.record(
      "q2", [synthetic.sentence("\ud800 lone surrogate.")], answer="\ud800 lone surrogate."
    ),
  ]


def test_markup_from_the_model_does_no_harm(page, show):
  seconds = show(hostile())
  assert page.evaluate("document.title") == "A test"
  assert page.evaluate("document.querySelectorAll('.s').length") == 2001
  assert page.evaluate("document.querySelectorAll('img, article script').length") == 0
  requested = [
    e["params"]["request"]["url"]
    for e in page.events
    if e.get("method") == "Network.requestWillBeSent"
  ]
  assert all(url.startswith(("file:", "about:")) for url in requested)
  assert seconds < 2
  page.click("input[value=supported]")
  page.press("Escape", 27)
  assert counted(page) == (1, 1)


def test_500_answers_open_within_a_second(show):
  rows = synthetic.realistic(random.Random(3), 500)
  long = "The keeper wrote down the level of the water every morning. " * 70
  for row in rows:
    row["passages"] = [{**p, "text": f"{p['text']} {long} {row['id']}"} for p in row["passages"]]
    row["prompt"] = "<|im_start|>".join(p["text"] for p in row["passages"]) + row["prompt"]
  assert show(rows) < 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
@pytest.mark.parametrize("rows", [ONE, STEPS], ids=["one", "steps"])
def test_axe_finds_no_violation(page, show, rows, width, scheme):
  if not AXE.exists():
    pytest.skip("needs axe-core (npm install --prefix .cache axe-core@4)")
  show(rows, width=width, scheme=scheme)
  page.evaluate(AXE.read_text())
  page.evaluate("document.body.classList.add('weights')")
  page.click("summary")
  page.hover("a.match")
  time.sleep(0.1)
  assert page.evaluate("!document.querySelector('#tip').hidden")
  found = page.evaluate(
    "axe.run().then(r => ({violations: r.violations.map(v => [v.id, v.nodes[0].html]),"
    " passes: r.passes.map(v => v.id)}))"
  )
  assert found["violations"] == []
  assert {"color-contrast", "list", "label"} & set(found["passes"])


@pytest.mark.parametrize("width", [1400, 420])
def test_the_window_never_scrolls_sideways(page, show, width):
  show(STEPS, width=width)
  assert page.evaluate("document.documentElement.scrollWidth") <= width
