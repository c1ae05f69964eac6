"use strict";
// What every part uses: elements, numbers, words. The page's own source, kept for saving.
const SOURCE = document.documentElement.outerHTML;
const page = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

// What a condition left out, as null or false, is no child.
const given = children =>
  children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false);
const put = (id, ...children) => $(id).replaceChildren(...given(children));

// An element: make("td.number", {title: "x", click: f}, "text", child, ...), or an svg:rect. Text
// only ever goes in as text; styles are set as properties, which the content security policy
// allows; functions listen to the event of that name.
function make(kind, ...children) {
  const [tag, ...classes] = kind.split("."), drawn = tag.startsWith("svg:");
  const element = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  const attributes = children[0]?.constructor === Object ? children.shift() : {};
  element.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") for (const key in value) element.style.setProperty(key, value[key]);
    else if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...given(children));
  return element;
}

// ---------------------------------------------------------------- numbers and words

const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const sum = list => list.reduce((a, b) => a + b, 0);
const rounded = (x, digits) => String(Number(x.toPrecision(digits))); // 110, not 1.1e+2
const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];
const range = n => Array.from({length: n}, (_, i) => i);
const digitsOf = x => x >= .9995 || x === 0 ? 0 : x < .0005 ? 3 : x < .01 ? 2 : 1;
const factor = x => x.toPrecision(2) + "\u00a0×"; // a unit stays on the line of its number
const percent = (x, more = 0) => (x > 0 && x < 5e-6 ? "under 0.001" : (100 * x).toFixed(digitsOf(x) + more)) + "\u00a0%";
const bareNumber = (x, more) => percent(x, more).replace("\u00a0%", ""); // where % stands elsewhere
const printed = (x, more) => Number(bareNumber(x, more)) / 100; // the number that is read
const gives = (found, result) => `${percent(found) === result ? "=" : "≈"} ${result}`;
// "9.30 / 14.83 = 62.7 %", with one digit more if the printed numbers then give the printed result.
function quotient(p, q) {
  const result = percent(p / q), says = more => `${bareNumber(p, more)} / ${bareNumber(q, more)} ${
    gives(printed(p, more) / printed(q, more), result)}`;
  return [0, 1].map(says).find(text => text.includes("=")) ?? says(1);
}
const percentsOf = (x, digits) => (100 * x).toFixed(digits);
// How many more digits p and q need, so that p / q of what is printed is right in whole per cent.
const moreDigits = (p, q) => p >= q || percentsOf(printed(p) / printed(q), 0) === percentsOf(p / q, 0) ? 0 : 1;
// Two chances in per cent, with as many digits as tell them apart.
function apart(a, b) {
  const digits = [0, 1, 2].find(n => percentsOf(a, n) !== percentsOf(b, n)) ?? 2;
  return [percentsOf(a, digits), percentsOf(b, digits)];
}
const times = x => x.toFixed(2) + "\u00a0×";
const ms = (x, digits = 2) => (1e3 * x).toFixed(digits) + "\u00a0ms";
const lasting = x => x < 1 ? ms(x, 0) : x.toFixed(2) + "\u00a0s";
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : /(s|ch)$/.test(word) ? "es" : "s"}`;
const share = x => (100 * clamp(x, 0, 1)).toFixed(2) + "%";
const width = x => ({width: share(x)});
const sentence = text => text[0].toUpperCase() + text.slice(1) + ".";

// Unseen and reversing characters show as their numbers; not so the joiners of words and emoji.
const HIDDEN = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}]/gu;
const plainly = text => text.replace(HIDDEN,
  character => `[U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
const visible = text => plainly(text).replace(/^ /, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥")
  .replace(/^$/, "·");
const inText = text => plainly(text).replace(/\n/g, "⏎\n") || "·";
const words = {}; // token: its text
const word = id => visible(words[id]);
const bare = text => visible(text).replace(/^␣(?=.)/, "");
const quoted = id => `“\u2068${bare(words[id])}\u2069”`; // isolated: it may run the other way
const listed = id => (/^\p{L}/u.test(words[id]) ? "…" : "") + bare(words[id]); // … goes on with a word
const spoken = id => word(id).replace("␣", "space ");

const NAMES = {
  draft: "accepted guess", correction: "replacement", bonus: "extra word",
  target: "large model alone", rejected: "rejected guess",
};

// ---------------------------------------------------------------- the state of the page

// all: what came, a run with another one in it; base: the run of the two that is shown
const state = {all: null, base: null};
const live = page.live || null;
const still = matchMedia("(prefers-reduced-motion: reduce)");

const announce = text => put("status", text), complain = text => put("error", text);

// ---------------------------------------------------------------- the numbers of a run

const tokensOf = run => run.rounds.flatMap(({tokens}) => tokens);
const draftedIn = run => sum(run.rounds.map(({draft}) => draft.length));
const acceptedIn = run => sum(run.rounds.map(({accepted}) => accepted));
const examinedIn = run => sum(run.rounds.map(({examined}) => examined));
const isByChance = run => run.settings.temperature > 1e-6; // below, decoding is greedy
const bytesIn = run => run.parameters[0] * (run.numbers === "float16" ? 2 : 4); // of the large model
const mostWords = run => 1 + Math.max(...run.rounds.map(({draft}) => draft.length)); // of a fetch
const isOurs = ({settings}) => settings.target_model_size === "17M" && settings.draft_model_size === "0.7M-17M";
const isOtherText = run => isByChance(run) && !run.settings.coupled; // the two are drawn apart
const isSameText = run => run.alone.tokens.join() === tokensOf(run).join();
const sameIn = (run, whole) => isOtherText(run) ? "the same odds" : isSameText(run) ? whole : "the same text, but for a tie";

// How many times as fast guessing was, in each turn: [seconds alone, of drafting, of the rest].
const speedupsOf = run => run.turns.map(([alone, draft, rest]) =>
  tokensOf(run).length * alone / run.alone.tokens.length / (draft + rest));
const speedupOf = run => median(speedupsOf(run));
const isMeasured = run => run.turns.length > 2 || !asking; // not just in the first turn

// Of the race that is shown, in seconds: a fetch alone; with guesses, the guessing before a
// fetch, and the fetch itself. And how many guesses and words it has. All on average.
function costsOf({alone, rounds}) {
  const mean = valueOf => sum(rounds.map(valueOf)) / rounds.length;
  return {alone: sum(alone.seconds) / alone.tokens.length, guessing: mean(({seconds}) => seconds[0]),
    rest: mean(({seconds}) => seconds[1]), guesses: mean(({draft}) => draft.length), written: mean(({tokens}) => tokens.length)};
}

// ---------------------------------------------------------------- what stands around the figures

function showHead(run) {
  $("same").textContent = isOtherText(run) ? "The odds stay" : "The text stays";
  const asked = run.settings.n_tokens_to_generate;
  $("cut").hidden = run.room >= asked || Math.max(run.alone.tokens.length, tokensOf(run).length) < run.room;
  $("cut").textContent = `The models’ context has room for ${run.room} of the ${asked} tokens that were asked for: the text ends there.`;
  put("command", plainly(run.command).split(/(--\w{1,30})/).map((part, i) => i % 2 ? make("span", part) : part));
  $("made").textContent = run.made;
}

$("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(state.base.command);
  $("copied").textContent = "copied";
});

// GitHub Pages fill the address of the repository in; elsewhere the links to it lead nowhere.
for (const link of $("links").children) link.hidden = link.href.includes("OWNER");

// ---------------------------------------------------------------- tables, buttons, sliders

const button = (text, id, click) => make("button", {type: "button", id, click}, text);

// Of a group of buttons, one looks pressed: the i-th, or none.
const press = (group, i) => $(group).querySelectorAll("button").forEach((element, n) =>
  element.setAttribute("aria-pressed", String(n === i)));

// A slider; moved(value) is called while it is dragged, say(value) is what is read out.
function slider(attributes, value, say, moved) {
  const tell = value => element.setAttribute("aria-valuetext", say(value));
  const input = () => { tell(Number(element.value)); moved(Number(element.value)); };
  const element = make("input", {type: "range", ...attributes, input});
  element.value = value;
  tell(value); // not that of the nearest step
  return element;
}
