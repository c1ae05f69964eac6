// ---------------------------------------------------------------- rules side by side

const PREFIX = 5; // tokens shown of what a text has in common with the token rule's
const GUESSED = ["mistake", "inexact"]; // whose laws are hidden until the question is answered
let chosenRule = null, guessed = false;

const title = name => name.replace(/-/g, " ");
const isRight = row => row.distance !== null && row.distance < 1e-9;
const distanceOf = (row, digits) => row.distance === null ? "no text" : isRight(row) ? "0" : row.distance.toFixed(digits);

// The text of a row: what it shares with the first in short, then where it parts, then the rest.
function ruleText(row, first) {
  const parts = row.parts === null ? row.tokens.length : row.parts;
  const from = row === first ? 0 : Math.max(0, Math.min(parts, row.tokens.length) - PREFIX);
  const text = make("p.rule-text");
  if (from) text.append(make("span.soft", null, "… " + plural(from, "token") + " the same …"));
  row.tokens.forEach((id, i) => {
    if (i < from) return;
    if (i === parts) text.append(make("span.parting", null, "parts here"));
    text.append(make("span.token." + (i < parts && row !== first ? "same" : row.sources[i] || "target"), null,
      row.shown[i].replace(/\n/g, "⏎") || "·"));
  });
  if (row.parts !== null && parts >= row.tokens.length) text.append(make("span.parting", null, "ends here"));
  if (row.error) text.append(make("span.crash", null, row.error));
  return text;
}

function ruleRow(row, first) {
  const badge = !guessed && GUESSED.includes(row.kind) ? make("span.badge.hidden-law", null, "law: ?")
    : isRight(row) ? make("span.badge.right", null, "law exact")
    : make("span.badge.wrong", null, row.distance === null ? "no text" : "law off by " + distanceOf(row, 3));
  const rate = row.tokens_per_pass === null ? "" : row.tokens_per_pass.toFixed(2) + " tokens per pass";
  const same = row === first ? "" : row.parts === null ? "the same text" : "parts at token " + (row.parts + 1);
  const element = make("div.rule", {role: "radio", "aria-checked": "false", tabindex: "-1"},
    make("div.rule-head", null, make("h3", null, title(row.name)), badge,
      make("span.soft", null, [same, rate].filter(Boolean).join(" · "))),
    make("p.soft", null, row.what), ruleText(row, first));
  element.addEventListener("click", () => chooseRule(row));
  row.element = element;
  return element;
}

function showRules() {
  const rows = state.rules;
  const missing = live ? "" : "This page was saved without the comparison of rules: python main.py play computes it.";
  $("rules-missing").textContent = rows.length ? "" : missing;
  $("rules").querySelector(".columns").hidden = !rows.length;
  if (!rows.length) return;
  $("rule-list").replaceChildren(...rows.map(row => ruleRow(row, rows[0])));
  chooseRule(rows.find(row => chosenRule && row.name === chosenRule.name) || rows[0]);
}

function chooseRule(row, focus) {
  chosenRule = row;
  for (const other of state.rules) {
    other.element.setAttribute("aria-checked", String(other === row));
    other.element.tabIndex = other === row ? 0 : -1;
  }
  if (focus) row.element.focus();
  $("law").replaceChildren(...lawPanel(row));
}

function lawPanel(row) {
  if (!guessed && GUESSED.includes(row.kind)) {
    const show = make("button", {type: "button", id: "show-laws"}, "Show the laws");
    show.addEventListener("click", revealLaws);
    return [make("p", null, "Answer the question above first, or look at once: does “" + title(row.name)
      + "” still write the target’s text?"), show];
  }
  const most = Math.max(...row.law.flatMap(([, right, rule]) => [right, rule]));
  const body = row.law.map(([text, right, rule]) => make("tr", null, make("th", {scope: "row"}, text),
    make("td.wide", null, make("span.bar", {style: width(right / most)}),
      make("span.bar.of-rule-law", {style: width(rule / most)})),
    make("td.number", null, right.toFixed(3)),
    make(Math.abs(rule - right) > 1e-9 ? "td.number.off" : "td.number", null, rule.toFixed(3))));
  const head = ["text", "", "target", "this rule"].map((name, i) =>
    make(i > 1 ? "th.number" : "th", {scope: "col"}, name));
  const parts = [
    make("p.distance" + (isRight(row) ? ".right" : ".wrong"), null, make("b", {id: "distance"}, distanceOf(row, 4)),
      make("span", null, row.distance === null ? "comes out: an error ends each"
        : "total variation distance" + (isRight(row) ? ": this is the target’s law" : " from the target’s law"))),
    make("p.soft", null, "Two GPT-2s with three tokens, A, B and C: every text they can write, with its probability, "
      + (row.kind === "noise" ? "by the Gumbel-max theorem." : "through every branch of the real loop. Computed, not sampled.")),
    make("table", {id: "law-table"}, make("caption", null, make("span.swatch.of-target"), "target alone  ",
      make("span.swatch.of-rule-law"), title(row.name)), make("thead", null, make("tr", null, ...head)),
      make("tbody", null, ...body)),
  ];
  if (row.cost) parts.push(make("p", null, row.cost[0].toUpperCase() + row.cost.slice(1) + "."));
  if (row.pieces) {
    parts.push(make("h3", null, "The mistake"), ...row.pieces.map(([where, right, wrong]) =>
      make("pre.diff", null, make("span.soft", null, where + "\n"), make("del", null, "− " + right + "\n"),
        make("ins", null, "+ " + wrong))),
      make("p.soft", null, "Seen in " + row.seen_in + ". Try it: python main.py --mistake " + row.name));
  }
  return parts;
}

function revealLaws() {
  guessed = true;
  showRules();
}

$("rule-list").addEventListener("keydown", event => {
  const here = state.rules.indexOf(chosenRule);
  const to = {ArrowDown: here + 1, ArrowRight: here + 1, ArrowUp: here - 1, ArrowLeft: here - 1,
    Home: 0, End: state.rules.length - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (state.rules[to]) chooseRule(state.rules[to], true);
});
