// ---------------------------------------------------------------- rules side by side

const GROUPS = {right: "exact", noise: "exact", inexact: "inexact", mistake: "mistakes"};
const ABOUT_GROUPS = {
  exact: "Exact: they write what the large model alone would write",
  inexact: "Inexact on purpose: faster, but another distribution",
  mistakes: "Mistakes: one changed line each",
};
let chosenRule = null;

const title = row => row.name.replace(/-/g, " ");
const isRight = row => row.distance !== null && row.distance < 1e-9;
const distanceOf = (row, digits) =>
  row.distance === null ? "no text" : isRight(row) ? "0" : row.distance.toFixed(digits);
const badgeOf = row => !row.distribution ? make("span.badge", "proved, not computed")
  : isRight(row) ? make("span.badge.right", "exact")
  : make("span.badge.wrong", row.distance === null ? "no text" : "distance " + distanceOf(row, 3));

// The text of a row, and where it leaves that of the first.
function ruleText(row, first) {
  const parts = row.parts === null ? row.tokens.length : row.parts;
  const kind = i => i < parts && row !== first ? "same" : row.sources[i] || "target";
  return make("p.written", {dir: "auto"},
    row.shown.map((text, n) => [n === parts && make("span.parting", "another text from here"),
      make("span.token." + kind(n), inText(text))]),
    row.parts !== null && parts >= row.tokens.length && make("span.parting", "ends here"),
    row.error && make("span.crash", row.error));
}

function ruleRow(row) {
  const element = make("div.rule.row.between", {role: "radio", click: () => chooseRule(row),
    "aria-checked": "false", tabindex: "-1"}, title(row), badgeOf(row));
  element.row = row;
  return element;
}

const ruleElements = () => [...$("rule-list").querySelectorAll("[role=radio]")];

// What has arrived of the rows; those that are there already stay, and so does the focus.
function showRules() {
  const rows = state.rules, first = rows[0];
  $("rules-missing").textContent = rows.length || live ? ""
    : "This page was saved without the comparison of rules: python main.py play computes it.";
  $("rules-stage").hidden = !rows.length;
  if (!rows.length) return;
  if (ruleElements()[0]?.row !== first) put("rule-list");
  for (const row of rows.slice(ruleElements().length)) {
    const group = GROUPS[row.kind];
    if (!$("rules-" + group)) $("rule-list").append(make("div", {id: "rules-" + group},
      make("h3", ABOUT_GROUPS[group])));
    $("rules-" + group).append(ruleRow(row));
  }
  const now = rows.find(row => chosenRule && row.name === chosenRule.name) || first;
  if (now !== chosenRule) chooseRule(now);
}

function chooseRule(row) {
  chosenRule = row;
  const all = ruleElements(), here = all.find(element => element.row === row);
  all.forEach(element => element.setAttribute("aria-checked", String(element === here)));
  stopAt(all, here);
  put("distribution",
    make("h3", sentence(title(row)).slice(0, -1)), make("p", sentence(row.what)),
    row.distribution && distributionPanel(row),
    make("h3", given(["Its text in a fresh run",
      row.tokens_per_pass !== null && `${row.tokens_per_pass.toFixed(2)} tokens per pass`])
      .join(": ")), ruleText(row, state.rules[0]));
  $("continuous").hidden = Boolean(row.distribution);
  $("distribution-panel").scrollTop = 0;
}

function distributionPanel(row) {
  const right = isRight(row);
  const most = Math.max(...row.distribution.flatMap(([, target, rule]) => [target, rule]));
  const rows = row.distribution.map(([text, target, rule]) =>
    make(Math.abs(rule - target) > 1e-9 ? "tr.off" : "tr", make("th", {scope: "row"}, text),
      make("td.wide", bar(target / most), bar(rule / most, "of-wrong")),
      make("td.number", target.toFixed(3)), make("td.number", rule.toFixed(3))));
  const heads = ["text", "", [swatch("of-target"), "large model"], [swatch("of-wrong"), "this rule"]];
  const says = row.distance === null ? "comes out: an error ends each" : "total variation distance: "
    + (right ? "exactly what the large model alone writes" : "the share of texts that it gets wrong");
  return [
    make("p.big" + (right ? ".right" : ".wrong"), make("b", {id: "distance"}, distanceOf(row, 4)),
      make("span", says)),
    row.errors > 0
      && make("p", {id: "errors"}, `${percent(row.errors)} of its texts end in an error.`),
    make("p.soft", "Two GPT-2s with three tokens, A, B and C: every text they can write, with its "
      + "probability, through every branch of the real loop. Computed, not sampled."),
    tableOf({id: "distribution-table"}, heads, rows),
    row.cost && make("p", sentence(row.cost)),
    row.changes && [make("h3", "The mistake"),
      row.changes.map(([where, right, wrong]) => make("pre", make("span.soft", `${where}\n`),
        make("del", `− ${right}\n`), make("ins", `+ ${wrong}`))),
      make("p.soft", `${sentence(row.seen_in.replace(/^(?!not seen)/, "seen in "))} Try it: python main.py --mistake ${row.name}`)],
  ];
}

arrowKeys($("rule-list"), element => chooseRule(element.row), (element, i) => i);
