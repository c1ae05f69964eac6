// ---------------------------------------------------------------- rules side by side

const PREFIX = 5; // tokens shown of what a text has in common with the token rule's
let chosenRule = null;

const title = row => row.name.replace(/-/g, " ");
const isRight = row => row.distance !== null && row.distance < 1e-9;
const distanceOf = (row, digits) =>
  row.distance === null ? "no text" : isRight(row) ? "0" : row.distance.toFixed(digits);
const badgeOf = row => !row.distribution ? make("span.badge", "not enumerated")
  : isRight(row) ? make("span.badge.right", "exact")
  : make("span.badge.wrong", row.distance === null ? "no text" : "off by " + distanceOf(row, 3));

// The text of a row: what it shares with the first in short, then where they differ, then the rest.
function ruleText(row, first) {
  const parts = row.parts === null ? row.tokens.length : row.parts;
  const from = row === first ? 0 : Math.max(0, Math.min(parts, row.tokens.length) - PREFIX);
  const kind = i => i < parts && row !== first ? "same" : row.sources[i] || "target";
  return make("p.written",
    from > 0 && make("span.soft", `… ${plural(from, "token")} the same …`),
    row.shown.slice(from).map((text, n) => [
      n + from === parts && make("span.parting", "differs from here on"),
      make("span.token." + kind(n + from), text.replace(/\n/g, "⏎") || "·")]),
    row.parts !== null && parts >= row.tokens.length && make("span.parting", "ends here"),
    row.error && make("span.crash", row.error));
}

function ruleRow(row, first) {
  const notes = given([
    row !== first && (row.parts === null ? "the same text" : `differs from token ${row.parts + 1} on`),
    row.tokens_per_pass !== null && `${row.tokens_per_pass.toFixed(2)} tokens per pass`]);
  return make("div.rule", {role: "radio", click: () => chooseRule(row), tabindex: "-1"},
    make("div.row", make("h3", title(row)), badgeOf(row), make("span.soft", notes.join(" · "))),
    make("p.soft", sentence(row.what)), ruleText(row, first));
}

function showRules() {
  const rows = state.rules;
  $("rules-missing").textContent = rows.length || live ? ""
    : "This page was saved without the comparison of rules: python main.py play computes it.";
  $("rules-stage").hidden = !rows.length;
  if (!rows.length) return;
  put("rule-list", rows.map(row => ruleRow(row, rows[0])));
  chooseRule(rows.find(row => chosenRule && row.name === chosenRule.name) || rows[0]);
}

function chooseRule(row) {
  chosenRule = row;
  const all = [...$("rule-list").children];
  all.forEach((element, i) => element.setAttribute("aria-checked", String(state.rules[i] === row)));
  stopAt(all, all[state.rules.indexOf(row)]);
  put("distribution", row.distribution ? distributionPanel(row)
    : CONTINUOUS.map(text => make("p", text)));
  $("distribution-panel").scrollTop = 0;
}

const CONTINUOUS = [
  "The noise is continuous, so the branches of this rule cannot be enumerated.",
  "Each token is the target’s own choice under the noise of its position, whatever was drafted. "
    + "By the Gumbel-max theorem that choice has the distribution p.",
];

const seenIn = row => sentence(row.seen_in.startsWith("not seen") ? row.seen_in
  : "seen in " + row.seen_in);

function distributionPanel(row) {
  const right = isRight(row);
  const most = Math.max(...row.distribution.flatMap(([, target, rule]) => [target, rule]));
  const rows = row.distribution.map(([text, target, rule]) => barRow(text,
    [bar(target / most), bar(rule / most, "of-wrong")],
    [target.toFixed(3), rule.toFixed(3)], Math.abs(rule - target) > 1e-9 ? "off" : ""));
  const caption = [swatch("of-target"), "target alone  ", swatch("of-wrong"), title(row)];
  const says = row.distance === null ? "comes out: an error ends each" : "total variation distance"
    + (right ? ": this is the target’s distribution" : " from the target’s distribution");
  return [
    make("p.big" + (right ? ".right" : ".wrong"), make("b", {id: "distance"}, distanceOf(row, 4)),
      make("span", says)),
    row.errors > 0
      && make("p", {id: "errors"}, `${percent(row.errors)} of its texts end in an error.`),
    make("p.soft", "Two GPT-2s with three tokens, A, B and C: every text they can write, with its "
      + "probability, through every branch of the real loop. Computed, not sampled."),
    tableOf({id: "distribution-table"}, caption, ["text", "", "target", "this rule"], rows),
    row.cost && make("p", sentence(row.cost)),
    row.changes && [make("h3", "The mistake"),
      row.changes.map(([where, right, wrong]) => make("pre", make("span.soft", `${where}\n`),
        make("del", `− ${right}\n`), make("ins", `+ ${wrong}`))),
      make("p.soft", `${seenIn(row)} Try it: python main.py --mistake ${row.name}`)],
  ];
}

arrowKeys($("rule-list"), (element, i) => chooseRule(state.rules[i]), (element, i) => i);
