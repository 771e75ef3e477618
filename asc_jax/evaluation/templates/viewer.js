"use strict";
// Text reaches the page through text nodes only: nothing in a record is parsed as HTML.
const DATA = JSON.parse(document.getElementById("data").textContent);
const PAGE = 10;
const STATES = {
  supported: ["✓", "supported", "In its own words, supported by the passages"],
  copied: ["❝", "copied", "Copied from the passages"],
  vacuous: ["○", "vacuous", "Supported, but the question alone says it"],
  unsupported: ["✗", "unsupported", "In its own words, not supported by the passages"],
  unscored: ["?", "not scored", "Not scored by this instrument"],
};
const FILTERS = {
  ...Object.fromEntries(Object.entries(STATES).map(([key, [, name]]) =>
    [key, [name, (a) => a.sentences.some((s) => stateOf(s) === key)]])),
  declines: ["a refusal", (a) => a.declines || a.sentences.some((s) => s.refusal)],
  cut: ["a cut end", (a) => !a.finished],
};
const $ = (id) => document.getElementById(id);
const view = { query: "", filters: new Set(), corpus: "", instrument: 0, together: false, step: 0 };
let found = [];
let drawn = 0;

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const stateOf = (sentence) => sentence.states[view.instrument];
const fixed = (value, digits = 2) => (value === null ? "–" : value.toFixed(digits));
const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(2);

// ---- text with marks -------------------------------------------------------------------

let needle = null;
function setNeedle(query) {
  view.query = query.trim();
  const literal = view.query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  needle = literal ? new RegExp(`(${literal})`, "giu") : null;
}
const hits = (text) => needle !== null && text.search(needle) >= 0;

function addText(parent, text) {
  if (needle === null) return parent.append(text);
  text.split(needle).forEach((part, i) => {
    if (part) parent.append(i % 2 ? element("mark", {}, part) : part);
  });
}

// Adds text[from, to) to parent, with the parts inside a match as links to their place.
function addMatched(parent, answer, from, to, links) {
  let at = from;
  for (let m = 0; m < answer.matches.length; m++) {
    const [start, end] = answer.matches[m];
    const a = Math.max(start, at), b = Math.min(end, to);
    if (a >= b) continue;
    addText(parent, answer.text.slice(at, a));
    const link = element("a", { class: "match", href: "#" + links.passages, tabindex: "-1", "data-match": m });
    addText(link, answer.text.slice(a, b));
    parent.append(link);
    at = b;
  }
  addText(parent, answer.text.slice(at, to));
}

// ---- an answer -------------------------------------------------------------------------

function drawSentence(answer, sentence, number, links) {
  const key = stateOf(sentence);
  const [sign, name] = STATES[key];
  const extra = (sentence.refusal ? ", declines" : "") + (sentence.complete ? "" : ", cut off");
  const node = element("span", {
    class: `s ${key}`, role: "listitem", tabindex: number ? "-1" : "0", "data-sentence": number,
  }, element("span", { class: "sign", "aria-hidden": "true" }, sign),
  element("span", { class: "vh" }, `${name}${extra}: `));
  addMatched(node, answer, sentence.start, sentence.end, links);
  for (const tag of [sentence.refusal && "declines", !sentence.complete && "cut off"].filter(Boolean)) {
    node.append(element("span", { class: "tag", "aria-hidden": "true" }, tag));
  }
  if (sentence.advantage !== null) {
    node.append(element("span", { class: "weight" }, signed(sentence.advantage)));
  }
  return node;
}

function drawPrompt(answer, question) {
  const box = element("details", {}, element("summary", {}, "Exact prompt, special tokens included"));
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    const pre = element("pre", {});
    const special = /(<\|[^<>|\s]{1,40}\|>|<\/?s>|<bos>|<eos>|<(?:start|end)_of_turn>|<\|?turn\|?>)/;
    const whole = question.prompts[answer.prompt].map((piece) =>
      (typeof piece === "number" ? question.passages[piece].text : piece)).join("");
    whole.split(special).forEach((part, i) => {
      if (part) pre.append(i % 2 ? element("span", { class: "special" }, part) : part);
    });
    box.append(pre);
  });
  return box;
}

function drawAnswer(answer, links) {
  const several = links.question.answers.some((a) => a.index > 0);
  const label = [DATA.variants.length > 1 ? DATA.variants[answer.variant] : "", several ? `answer ${answer.index + 1}` : ""]
    .filter(Boolean).join(" · ") || "Answer";
  const facts = [`${answer.words} words`, `${Math.round(100 * answer.copy)} % copied`,
    answer.em === null ? "" : `exact match ${fixed(answer.em)}`,
    answer.declines ? "declines" : "", answer.finished ? "" : "cut off at the token limit",
    answer.sampling.temperature === 0 ? "greedy" : `T ${answer.sampling.temperature}`].filter(Boolean);
  const text = element("p", answer.sentences.length ? { role: "list", "aria-label": `Sentences, ${label}` } : {});
  let at = 0;
  answer.sentences.forEach((sentence, number) => {
    text.append(answer.text.slice(at, sentence.start), drawSentence(answer, sentence, number, links));
    at = sentence.end;
  });
  text.append(answer.sentences.length ? answer.text.slice(at) : element("em", { class: "soft" }, "No sentence."));
  const node = element("div", { class: "answer", role: "group", "aria-label": label },
    element("h3", {}, label), text,
    element("div", { class: "facts" }, ...facts.map((f) => element("span", {}, f))), drawPrompt(answer, links.question));
  node.record = answer;
  node.links = links;
  return node;
}

function shownAnswers(question) {
  const wanted = [...view.filters].map((name) => FILTERS[name][1]);
  const open = question.answers.filter((a) => view.together || a.variant === view.step);
  if (!wanted.length) return open;
  const kept = new Set(open.filter((a) => wanted.some((test) => test(a))).map((a) => a.index));
  return open.filter((a) => kept.has(a.index)); // side by side: a kept answer keeps its counterparts
}

function matchesQuery(question) {
  return needle === null || hits(question.question) || hits(question.id)
    || question.passages.some((p) => hits(p.title) || hits(p.text))
    || question.answers.some((a) => (view.together || a.variant === view.step) && hits(a.text));
}

const address = (question) => encodeURIComponent(`${question.corpus}/${question.id}`);

function drawQuestion(question, number) {
  const links = { question, passages: `passages-${number}`, boxes: [] };
  const passages = element("div", {
    class: "passages", id: links.passages, tabindex: "0", role: "group", "aria-label": `Passages for: ${question.question}`,
  });
  question.passages.forEach((passage, i) => {
    const title = element("h3", {});
    addText(title, `[${i + 1}] ${passage.title}`);
    const text = element("p", {});
    addText(text, passage.text);
    links.boxes.push(text);
    passages.append(element("div", { class: "passage" }, title, text));
  });
  const shown = shownAnswers(question);
  const columns = view.together ? DATA.variants.length : 1;
  const answers = element("div", { class: "answers" }, ...shown.map((a) => drawAnswer(a, links)));
  answers.style.setProperty("--columns", columns);
  const heading = element("h2", {});
  addText(heading, question.question);
  const answerable = question.answerable === null ? "" : question.answerable ? " · answerable" : " · not answerable";
  const link = element("a", { href: "#" + address(question) }, `${question.corpus}/${question.id}`);
  return element("article", { id: address(question), "aria-label": question.question },
    element("div", { class: "question" }, heading, element("span", { class: "soft" }, link, answerable)),
    element("div", { class: columns > 2 ? "body broad" : "body" }, answers, passages));
}

// ---- the list --------------------------------------------------------------------------

function drawMore(count = PAGE) {
  const end = Math.min(found.length, drawn + count);
  const batch = document.createDocumentFragment();
  for (; drawn < end; drawn++) batch.append(drawQuestion(found[drawn], drawn));
  $("list").append(batch);
  $("more").hidden = drawn >= found.length;
}

function refresh() {
  hideTip();
  found = DATA.questions.filter((q) => (!view.corpus || q.corpus === view.corpus)
    && matchesQuery(q) && shownAnswers(q).length);
  const answers = found.reduce((sum, q) => sum + shownAnswers(q).length, 0);
  $("count").value = `${found.length} of ${DATA.questions.length} questions, ${answers} answers`;
  $("list").replaceChildren();
  drawn = 0;
  drawMore();
  if (!found.length) $("list").append(element("p", {}, "Nothing matches. Clear the search or a filter."));
}

function goToAddress() {
  const target = location.hash.slice(1);
  const place = found.findIndex((q) => address(q) === target);
  if (place < 0) return;
  if (place >= drawn) drawMore(place + 1 - drawn);
  $("list").children[place].scrollIntoView();
}

// ---- a sentence's details ---------------------------------------------------------------

let marked = null; // the passage that shows a place, and the link that asked for it

function unmark() {
  if (!marked) return;
  marked.box.replaceChildren();
  addText(marked.box, marked.text);
  marked.link.classList.remove("on");
  marked = null;
}

function markPlace(link, section) {
  if (marked && marked.link === link) return;
  unmark();
  const { record: answer, links } = section;
  const [, , passage, start, end] = answer.matches[Number(link.dataset.match)];
  const box = links.boxes[passage];
  const text = links.question.passages[passage].text;
  const place = element("mark", { class: "place", tabindex: "-1" }, text.slice(start, end));
  box.replaceChildren(text.slice(0, start), place, text.slice(end));
  link.classList.add("on");
  marked = { box, text, link, place };
  const pane = box.closest(".passages");
  const offset = place.getBoundingClientRect().top - pane.getBoundingClientRect().top;
  if (offset < 0 || offset > pane.clientHeight - 40) pane.scrollTop += offset - pane.clientHeight / 3;
}

function tipTable(sentence) {
  const rows = Object.entries(sentence.scores).map(([name, score]) => element("tr", {},
    element("th", { scope: "row" }, name),
    ...[score.supported, score.vacuous, score.threshold].map((v) => element("td", {}, fixed(v, 3)))));
  const head = element("tr", {}, ...["checker", "by passages", "by question", "threshold"].map((h) =>
    element("th", { scope: "col" }, h)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

function fillTip(sentence, answer, link) {
  const [sign, , meaning] = STATES[stateOf(sentence)];
  const more = [`${Math.round(100 * sentence.copy_share)} % of its words in verbatim matches`];
  if (sentence.refusal) more.push("declines to answer");
  if (!sentence.complete) more.push("cut off by the token limit");
  if (sentence.credit !== null) more.push(`credit ${sentence.credit} (${answer.reward})`);
  if (sentence.advantage !== null) more.push(`advantage ${signed(sentence.advantage)} on each of its tokens`);
  const parts = [element("strong", {}, `${sign} ${meaning}`)];
  if (Object.keys(sentence.scores).length) parts.push(tipTable(sentence));
  parts.push(...more.map((line) => element("div", {}, line)));
  if (link) {
    const [, , passage, start, end] = answer.matches[Number(link.dataset.match)];
    const text = link.closest(".answer").links.question.passages[passage].text;
    const before = text.slice(0, start).match(/(?:\S+\s+){0,8}\S*$/)[0];
    const after = text.slice(end).match(/^\S*(?:\s+\S+){0,8}/)[0];
    parts.push(element("blockquote", {}, `Passage ${passage + 1}: ${before.length < start ? "… " : ""}${before}`,
      element("mark", { class: "place" }, text.slice(start, end)), after + (end + after.length < text.length ? " …" : "")));
  }
  $("tip").replaceChildren(...parts);
}

let current = null; // the sentence whose details are shown
let leaving = 0;

function hideTip() {
  clearTimeout(leaving);
  if (current) {
    current.classList.remove("on");
    current.removeAttribute("aria-describedby");
  }
  current = null;
  $("tip").hidden = true;
  unmark();
}

function placeTip() {
  const tip = $("tip");
  const boxes = (marked ? marked.link : current).getClientRects();
  const last = boxes[boxes.length - 1];
  if (last.bottom < 0 || boxes[0].top > innerHeight) return hideTip();
  const below = last.bottom + 6 + tip.offsetHeight <= innerHeight;
  tip.style.top = `${below ? last.bottom + 6 : Math.max(6, boxes[0].top - tip.offsetHeight - 6)}px`;
  tip.style.left = `${Math.max(8, Math.min(last.left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
}

function showTip(node, link) {
  clearTimeout(leaving);
  const section = node.closest(".answer");
  if (current && current !== node) hideTip();
  current = node;
  node.classList.add("on");
  node.setAttribute("aria-describedby", "tip");
  if (link) markPlace(link, section);
  else unmark();
  fillTip(section.record.sentences[Number(node.dataset.sentence)], section.record, link);
  $("tip").hidden = false;
  placeTip();
}

// One stop of the Tab key an answer: the sentence last visited, and the links inside it.
function visit(node) {
  const text = node.parentNode;
  for (const other of text.querySelectorAll('[tabindex="0"]')) other.setAttribute("tabindex", "-1");
  node.setAttribute("tabindex", "0");
  for (const link of node.querySelectorAll(".match")) link.setAttribute("tabindex", "0");
}

const sentenceAt = (event) => event.target.closest && event.target.closest(".s");
const linkAt = (event) => event.target.closest && event.target.closest(".match");

$("list").addEventListener("mouseover", (event) => {
  const node = sentenceAt(event);
  if (node) showTip(node, linkAt(event));
});
function leave() { // late enough to move the pointer onto the details
  clearTimeout(leaving);
  if (!(current && current.contains(document.activeElement))) leaving = setTimeout(hideTip, 250);
}
$("list").addEventListener("mouseout", (event) => {
  if (current && !(event.relatedTarget && current.contains(event.relatedTarget))) leave();
});
$("tip").addEventListener("mouseenter", () => clearTimeout(leaving));
$("tip").addEventListener("mouseleave", leave);
$("list").addEventListener("focusin", (event) => {
  const node = sentenceAt(event);
  if (!node) return event.target.classList.contains("place") ? undefined : hideTip();
  visit(node);
  showTip(node, linkAt(event));
});
$("list").addEventListener("click", (event) => {
  const link = linkAt(event);
  if (!link) return;
  event.preventDefault();
  showTip(sentenceAt(event), link);
  $("tip").hidden = true;
  marked.place.scrollIntoView({ block: "center" });
  marked.place.focus({ preventScroll: true });
});

const MOVES = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const back = marked && document.activeElement === marked.place ? marked.link : null;
    if (back) back.focus();
    else hideTip();
    return;
  }
  const node = sentenceAt(event);
  if (!node || !(event.key in MOVES)) return;
  const all = [...node.parentNode.querySelectorAll(".s")];
  const to = Math.max(0, Math.min(all.length - 1, all.indexOf(node) + MOVES[event.key]));
  event.preventDefault();
  visit(all[to]);
  all[to].focus();
});

// ---- controls ---------------------------------------------------------------------------

function drawFilters() {
  const shown = DATA.questions.flatMap((q) => q.answers);
  for (const [key, [name, test]] of Object.entries(FILTERS)) {
    if (!shown.some(test)) continue;
    const box = element("input", { type: "checkbox", value: key });
    box.addEventListener("change", () => {
      if (box.checked) view.filters.add(key);
      else view.filters.delete(key);
      refresh();
    });
    const sign = key in STATES
      ? [element("span", { class: `key ${key}`, "aria-hidden": "true" }, element("span", { class: "sign" }, STATES[key][0]))] : [];
    $("states").append(element("label", { class: "chip" }, box, ...sign, name));
  }
}

function fillSelect(select, label, options, chosen) {
  select.append(...options.map(([value, text]) => element("option", { value }, text)));
  label.hidden = options.length < 2;
  select.addEventListener("change", () => { chosen(select.value); refresh(); });
}

function setUp() {
  drawFilters();
  let timer = 0;
  $("search").addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => { setNeedle(event.target.value); refresh(); }, 120);
  });
  $("tools").addEventListener("submit", (event) => event.preventDefault());
  const corpora = [...new Set(DATA.questions.map((q) => q.corpus))];
  fillSelect($("corpus"), $("corpora"), [...(corpora.length > 1 ? [["", "all"]] : []), ...corpora.map((c) => [c, c])],
    (value) => { view.corpus = value; });
  fillSelect($("instrument"), $("judges"), DATA.instruments.map((name, i) => [i, name]),
    (value) => { view.instrument = Number(value); });
  const last = DATA.variants.length - 1;
  $("steps").hidden = last < 1;
  view.together = last > 0;
  view.step = last;
  $("together").checked = view.together;
  $("step").max = last;
  const showStep = () => {
    $("step").value = view.step;
    $("step").disabled = view.together;
    $("step").setAttribute("aria-valuetext", DATA.variants[view.step]);
    $("stepname").value = view.together ? "" : DATA.variants[view.step];
  };
  $("together").addEventListener("change", (event) => { view.together = event.target.checked; showStep(); refresh(); });
  $("step").addEventListener("input", (event) => { view.step = Number(event.target.value); showStep(); refresh(); });
  showStep();
  $("weighing").hidden = !DATA.questions.some((q) => q.answers.some((a) => a.sentences.some((s) => s.advantage !== null)));
  $("weights").addEventListener("change", (event) => document.body.classList.toggle("weights", event.target.checked));
  $("more").addEventListener("click", () => drawMore());
  new IntersectionObserver((entries) => { if (entries[0].isIntersecting && drawn < found.length) drawMore(); },
    { rootMargin: "600px" }).observe($("more"));
  addEventListener("scroll", () => { if (!$("tip").hidden) placeTip(); }, { passive: true });
  addEventListener("hashchange", goToAddress);
  refresh();
  goToAddress();
}

setUp();
