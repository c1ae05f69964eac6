"use strict";
// What every view uses: elements, numbers, words, tabs. The page's own source, kept for saving.
const SOURCE = document.documentElement.outerHTML;
const page = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

// An element: make("td.number", {title: "x"}, "text", child, ...). Text only ever goes in as text;
// styles are set as properties, which the content security policy allows.
function make(kind, attributes, ...children) {
  const [tag, ...classes] = kind.split("."), element = document.createElement(tag);
  for (const name of classes) element.classList.add(name);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

// ---------------------------------------------------------------- numbers and words

const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const sum = list => list.reduce((a, b) => a + b, 0);
const percent = x => (100 * x).toFixed(x >= .9995 || x === 0 ? 0 : 1) + " %";
const number = x => x === 0 ? "0" : x >= 1e-3 ? x.toPrecision(3) : x.toExponential(1);
const times = x => x.toFixed(2) + " ×";
const ms = x => (1e3 * x).toFixed(2) + " ms";
const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");
const width = share => ({width: (100 * clamp(share, 0, 1)).toFixed(2) + "%"});
const at = share => ({left: (100 * clamp(share, 0, 1)).toFixed(2) + "%"});

const sentence = text => text[0].toUpperCase() + text.slice(1) + ".";

const visible = text =>
  text.replace(/^ /, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^$/, "·");
const words = {}; // token: its text
const word = id => visible(words[id]);
const quoted = id => "“" + word(id) + "”";
const spoken = id => word(id).replace("␣", "space ");

const NAMES = {
  draft: "accepted draft", correction: "correction", bonus: "bonus", target: "target alone",
  rejected: "rejected draft", unexamined: "unexamined draft",
};
const MEANINGS = {
  draft: "proposed by the draft, kept",
  correction: "from the residual, in place of a rejected draft",
  bonus: "the target’s own, after a full accept",
  target: "the target’s own, nothing was drafted",
};
const PARTS = ["draft", "target", "rule"];

// ---------------------------------------------------------------- the state of the page

// base: the run of the prompt; run: what the microscope shows, base or a what-if; edits: how run
// came from base
const state = {base: null, run: null, edits: null, rules: [], costs: null};
const live = page.live || null;
const still = matchMedia("(prefers-reduced-motion: reduce)");

function announce(text) {
  $("status").textContent = text;
}

function complain(text) {
  $("error").hidden = !text;
  $("error").textContent = text || "";
}

// The acceptance rate of a run, or what the drafts examined so far say of it.
function acceptance(run) {
  return run.figures.acceptance_rate === null ? 0 : run.figures.acceptance_rate;
}

// ---------------------------------------------------------------- tabs

const VIEWS = ["race", "microscope", "rules", "pays"];
const opened = []; // called with the name of each view that is opened

function openView(name, focus) {
  for (const view of VIEWS) {
    const tab = $("tab-" + view), here = view === name;
    $(view).hidden = !here;
    tab.setAttribute("aria-selected", String(here));
    tab.tabIndex = here ? 0 : -1;
    if (here && focus) tab.focus();
  }
  state.view = name;
  for (const call of opened) call(name);
}

VIEWS.forEach((view, i) => {
  const tab = $("tab-" + view);
  tab.addEventListener("click", () => { history.replaceState(null, "", "#" + view); openView(view); });
  tab.addEventListener("keydown", event => {
    const to = {ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: VIEWS.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    openView(VIEWS[(to + VIEWS.length) % VIEWS.length], true);
  });
});
addEventListener("hashchange", () => {
  if (VIEWS.includes(location.hash.slice(1))) openView(location.hash.slice(1));
});

// ---------------------------------------------------------------- what stands around the views

function showHead(run) {
  const s = run.settings, f = run.figures;
  const drafter = s.draft_model_size === "ngram" ? "looking up n-grams" : s.draft_model_size;
  $("summary").textContent = s.target_model_size + " checks what " + drafter + " proposes. K = " + s.K
    + ", temperature " + s.temperature + (s.top_k ? ", top-k " + s.top_k : "")
    + (s.top_p < 1 ? ", top-p " + s.top_p : "") + ", seed " + s.seed
    + (s.verification === "block" ? ", drafts verified in blocks" : "")
    + (run.coupled ? ", draft and target coupled by shared noise" : "") + ".";
  const figure = (value, what) => make("li", null, make("b", null, value), make("span", null, what));
  const shown = [];
  if (run.speedup !== null) shown.push(figure(times(run.speedup), "the speed of plain decoding"));
  if (f.acceptance_rate !== null) {
    const counts = f.accepted + " of " + f.examined + " examined drafted tokens";
    shown.push(figure(percent(f.acceptance_rate), "accepted: " + counts));
  }
  if (run.coupled && f.usual_acceptance_rate !== null) {
    shown.push(figure(percent(f.usual_acceptance_rate), "the token rule would accept of the same"));
  }
  shown.push(figure(f.tokens_per_target_pass.toFixed(2), "tokens per target pass"));
  shown.push(figure(String(f.rounds), "rounds for " + plural(f.token_ids.length, "token")));
  shown.push(figure(f.tokens_per_second.toFixed(0), "tokens per second"));
  $("figures").replaceChildren(...shown);
  $("command").textContent = run.command;
  $("made").textContent = run.made;
}

$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText($("command").textContent);
    $("copied").textContent = "copied";
  } catch {
    getSelection().selectAllChildren($("command"));
    $("copied").textContent = "selected: copy it with your keyboard";
  }
});

// ---------------------------------------------------------------- tables and sliders

const bar = (share, kind) => make(kind ? "span.bar." + kind : "span.bar", {style: width(share)});
const swatch = kind => make("span.swatch." + kind);

// A row: its name, what stands beside it (bars), and numbers; `kind` is its class.
function barRow(name, bars, numbers, kind) {
  return make(kind ? "tr." + kind : "tr", null, make("th", {scope: "row"}, name),
    bars.length ? make("td.wide", null, ...bars) : null,
    ...numbers.map(text => make("td.number", null, text)));
}

// A table; heads and the caption are lists of texts and elements, or null.
function tableOf(attributes, caption, heads, rows) {
  const head = heads && heads.map((content, i) =>
    make(i > 1 ? "th.number" : "th", {scope: "col"}, ...[content].flat()));
  return make("table", attributes, caption && make("caption", null, ...caption),
    head && make("thead", null, make("tr", null, ...head)), make("tbody", null, ...rows));
}

// A slider; moved(value) is called while it is dragged, say(value) is what is read out.
function slider(attributes, value, say, moved) {
  const element = make("input", {type: "range", ...attributes});
  const tell = () => element.setAttribute("aria-valuetext", say(Number(element.value)));
  element.value = value;
  tell();
  element.addEventListener("input", () => { tell(); moved(Number(element.value)); });
  return element;
}
