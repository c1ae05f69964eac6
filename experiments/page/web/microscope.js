// ---------------------------------------------------------------- the microscope
// One item for each draft and each token of the target: {n, r, i, id, kind, drafted, shown}. i is
// its place in the round r; shown is null where the token is not in the text. Its buttons know it.

let items = [], selected = null;

const MEANINGS = {
  draft: "proposed by the draft, kept",
  correction: "from the residual, in place of a rejected draft",
  bonus: "the target’s own, after a full accept",
  target: "the target’s own, nothing was drafted",
};

function itemsOf(run) {
  const found = run.rounds.flatMap((round, r) => {
    const n = round.accepted, drafts = round.draft.map((id, i) => {
      const kind = i < n ? "draft" : i < round.examined ? "rejected" : "unexamined";
      return {r, i, id, kind, drafted: true, shown: i < n ? round.shown[i] : null};
    });
    const own = {r, i: n, id: round.tokens[n], kind: round.sources[n], drafted: false, shown: round.shown[n]};
    return n < round.tokens.length ? [...drafts, own] : drafts;
  });
  return found.map((item, n) => ({...item, n}));
}

function itemButton(item, style, ...content) {
  const label = (spoken(item.id) || "empty") + ", " + NAMES[item.kind] + ", round " + (item.r + 1);
  const element = make("button." + style + "." + item.kind, {type: "button", "aria-label": label,
    "aria-pressed": "false", tabindex: "-1", click: () => select(item)}, content);
  element.item = item;
  return element;
}

function showText(run) {
  put("legend", Object.entries(MEANINGS).map(([kind, meaning]) => {
    const n = items.filter(item => item.kind === kind).length;
    return n > 0 && make("li", make("span.token." + kind, NAMES[kind]), " " + meaning + " (" + n + ")");
  }));
  const parts = firstOther(run), text = items.filter(item => item.shown !== null);
  put("text", make("span.soft", run.prompt), text.map((item, n) => [
    n === parts && make("span.parting", "from here on another text"),
    itemButton(item, "token", item.shown.replace(/\n/g, "⏎") || "·"),
    "\n".repeat(item.shown.split("\n").length - 1)]));
  $("plain").textContent = run.prompt + text.map(item => item.shown).join("");
}

// The first token in which a what-if leaves the run it came from.
function firstOther(run) {
  const before = state.base.figures.token_ids;
  return run.figures.token_ids.findIndex((token, i) => token !== before[i]);
}

const HOW = {
  block: "Each row is one pass of the target. The bar under a draft is P, the chance that the block up to "
    + "it is kept. Coins are tossed from the longest block down; what is kept is followed by a token "
    + "from what it leaves uncovered, and the rest is forgotten.",
  coupled: "Each row is one pass of the target. A draft stays while it is the token that the target "
    + "itself chooses under the same noise; at the first other one the target’s choice takes its place.",
  token: "Each row is one pass of the target. The bar under a draft is min(1, p/q), the tick is the "
    + "coin u: it stays where the tick falls on the bar. At the first that does not, a token from "
    + "the residual takes its place, and the rest is forgotten.",
};
const ruleOf = run => run.coupled ? "coupled" : run.settings.verification || "token";

function meter(item, round) {
  const u = round.coins[item.i], P = round.support ? round.support[item.i] : round.p[item.i] / round.q[item.i];
  return item.drafted && (u !== undefined || round.support)
    && make("span.meter", make("i", {style: width(P)}), u !== undefined && make("b", {style: at(u)}));
}

const timesOf = round => PARTS.map((part, i) => part + " " + ms(round.seconds[i])).join(", ");

function showRounds(run) {
  $("how").textContent = HOW[ruleOf(run)];
  const longest = Math.max(...run.rounds.map(round => sum(round.seconds)));
  put("rounds", run.rounds.map((round, r) => {
    const chips = items.filter(item => item.r === r).map(item =>
      itemButton(item, "chip", word(item.id), meter(item, round)));
    return make("div.round", {role: "group", "aria-label": "round " + (r + 1)},
      make("span.soft.number", String(r + 1)),
      make("span.number", {title: "accepted of examined"}, round.accepted + "/" + round.examined),
      make("div.row", chips),
      make("span.times", {title: timesOf(round)},
        stack("span.stack", round.seconds.map(seconds => seconds / longest)),
        make("span.number", ms(sum(round.seconds)))));
  }));
}

function showCounts(run) {
  const {rounds} = run, most = Math.max(...rounds.map(round => round.draft.length));
  const counts = range(most + 1).map(n => rounds.filter(round => round.accepted === n).length);
  const places = range(most).map(i => [rounds.filter(round => round.examined > i).length,
    rounds.filter(round => round.accepted > i).length]).filter(([examined]) => examined);
  put("histogram",
    tableOf({}, "Rounds by the number of drafts they accepted", ["accepted", "", "rounds"],
      counts.map((n, i) => barRow(String(i), [bar(n / Math.max(...counts))], [String(n)]))),
    places.length > 0 && [make("h3", "By place in the draft"),
      tableOf({}, "Of the drafts examined at each place, those accepted", ["place", "", "accepted", ""],
        places.map(([examined, accepted], i) => barRow(String(i + 1), [bar(accepted / examined)],
          [percent(accepted / examined), accepted + " of " + examined])))]);
}

function showLedger(run) {
  const what = ["drafting: passes of the draft, or the look-up", "the target’s passes",
    "the rule, the filter and the loop"];
  const totals = PARTS.map((_, i) => sum(run.rounds.map(round => round.seconds[i])));
  const shares = totals.map(total => total / sum(totals));
  const says = PARTS.map((part, i) => part + " " + percent(shares[i])).join(", ");
  put("ledger", stack("div.stack.tall", shares, {role: "img", "aria-label": says}),
    tableOf({}, null, ["part", "", "total", "a round", "share"],
      PARTS.map((part, i) => barRow(what[i], [swatch("of-" + part)],
        [ms(totals[i]), ms(totals[i] / run.rounds.length), percent(shares[i])], "part"))),
    make("p.soft", "Decoding only: reading the prompt took " + ms(run.figures.prefill_seconds)
      + " before the first round. The time it took to note all this is not counted."));
}

// ---------------------------------------------------------------- one decision

function explain(item, round) {
  if (item.kind === "unexamined") {
    return round.tokens.length > round.accepted
      ? "Never looked at: a draft before it was rejected, and it continues a text that is no more."
      : "Never looked at: the text had ended.";
  }
  const p = round.p[item.i], q = round.q[item.i], ratio = item.drafted && number(p / q);
  const here = quoted(round.tokens[item.i]), first = round.draft[round.accepted];
  const rejected = first !== undefined && quoted(first);
  const token = {
    draft: p >= q ? "p is at least q, so it is accepted whatever the coin shows."
      : "The coin fell below p/q = " + ratio + ": accepted.",
    rejected: "The coin did not fall below p/q = " + ratio + ": rejected. " + here
      + " was sampled from the residual in its place.",
    correction: "Sampled from the residual, norm(max(0, p − q)), in place of the rejected " + rejected + ".",
    bonus: "All drafts were accepted; the target’s last row gave one more token, sampled from p, for free.",
    target: "Nothing was drafted: sampled from p, as in plain decoding.",
  };
  const block = {
    ...token,
    draft: "The block up to it was kept; the chance of that was P = "
      + (item.kind === "draft" && round.support && number(round.support[item.i])) + ".",
    rejected: "The block ended before it: " + here + " was sampled from what the block leaves uncovered.",
    correction: "Sampled from norm(max(0, P p − q)), what the kept block leaves uncovered, in place of "
      + rejected + ".",
  };
  const coupled = {
    draft: "Under the noise of this position draft and target chose the same token.",
    rejected: "Under the same noise the target chose " + here + ", so the draft’s choice goes.",
    correction: "The target’s own choice under the noise of this position; the draft had chosen " + rejected + ".",
    bonus: "All drafts agreed; the target’s last row gave its choice for one more position, for free.",
    target: "Nothing was drafted: the target’s own choice under the noise of this position.",
  };
  return {token, block, coupled}[ruleOf(state.run)][item.kind];
}

// The decision itself: the word, the verdict and its reason.
function decision(item, round) {
  const facts = [["p (target)", round.p[item.i]], ["q (draft)", round.q[item.i]],
    ["p / q", round.p[item.i] / round.q[item.i]], ["u (coin)", round.coins[item.i]],
    ["P (block)", round.support?.[item.i]]].filter(([, value]) => value !== undefined);
  return [make("div.row", make("p.word", word(item.id)),
      make("span.verdict." + item.kind, NAMES[item.kind]),
      make("span.soft", "round " + (item.r + 1) + ", id " + item.id)),
    make("p", {id: "because"}, explain(item, round)),
    item.drafted && make("dl", {id: "numbers"},
      facts.map(([name, value]) => [make("dt", name), make("dd", number(value))]))];
}

// ---------------------------------------------------------------- p and q

// The likeliest tokens at a place of a round, from what q has most too much to what p has beyond q:
// [{id, p, q, over}], where over is what p has beyond q, or null where nothing was drafted. The block
// rule holds P p against q, P being the chance that the drafts before are kept.
function rowsAt(round, i) {
  const P = round.support && i > 0 ? round.support[i - 1] : 1;
  return round.likely[i].map(([id, p, q]) => ({id, p: P * p, q, over: q === null ? null : P * p - q}))
    .sort((a, b) => a.over - b.over);
}

// What replaces a draft if it is rejected: [[token, mass]] of the likeliest, best first. Of the token
// rule it is computed: the whole residual sums to 1 - sum(min(p, q)) before it is divided by that.
function residualAt(round, i) {
  if (round.support) return round.residual;
  const rest = rowsAt(round, i).filter(({over}) => over > 0);
  const total = Math.max(1 - round.overlap[i], sum(rest.map(({over}) => over)));
  return rest.map(({id, over}) => [id, over / total]).reverse();
}

// The picture of the rule: p and q as two areas over the same tokens, a row each. What they share is
// accepted, what q has too much is rejected, what p has beyond q is filled from the residual.
function areas(rows) {
  const most = Math.max(...rows.flatMap(({p, q}) => [p, q])), high = share(1 / rows.length);
  const area = (kind, i, from, to) => to > from && make("svg:rect." + kind, {x: share(from / most),
    width: share((to - from) / most), y: share(i / rows.length), height: high});
  const outline = name => make("svg:path." + name, {d: "M0 0"
    + rows.map((row, i) => "H" + row[name] / most + "V" + (i + 1)).join("") + "H0"});
  const drafted = rows[0].q !== null, names = (low, high) =>
    rows.filter(row => row[low] < row[high]).map(({id}) => quoted(id)).join(", ") || "no token shown here";
  return make("svg:svg.areas", {role: "img", "aria-labelledby": "areas-title", "aria-describedby": "areas-desc"},
    make("svg:title", {id: "areas-title"}, drafted ? "p and q over the same tokens" : "p over its likeliest tokens"),
    make("svg:desc", {id: "areas-desc"}, drafted ? "q has too much of " + names("p", "q") + ", which may be rejected. "
      + "p has more of " + names("q", "p") + ", which the residual fills." : "Nothing was drafted here."),
    make("svg:defs", make("svg:pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse"},
      make("svg:path.hatch", {d: "M0 6L6 0"}))),
    rows.map(({p, q}, i) => drafted ? [area("accepted", i, 0, Math.min(p, q)), area("rejected", i, p, q),
      area("residual", i, q, p)] : area("sampled", i, 0, p)),
    make("svg:svg", {viewBox: "0 0 1 " + rows.length, preserveAspectRatio: "none"},
      drafted && outline("q"), outline("p")));
}

function distributions(item, round) {
  const {i} = item, rows = rowsAt(round, i), drafted = rows[0].q !== null;
  const replaced = drafted && !state.run.coupled && ["rejected", "correction"].includes(item.kind);
  const residual = new Map(replaced ? residualAt(round, i) : []);
  const P = round.support && i > 0, p = P ? "P p" : "p";
  const heads = ["token", "", [swatch("of-target"), p], drafted && [swatch("of-draft"), "q"],
    replaced && make("span", {id: "residual"}, "residual")];
  const body = rows.map((row, n) => make(row.id === item.id ? "tr.chosen" : "tr",
    make("th", {scope: "row"}, word(row.id)), n === 0 && make("td.picture", {rowspan: rows.length}, areas(rows)),
    make("td.number", number(row.p)), drafted && make("td.number", number(row.q)),
    replaced && make("td.number", residual.has(row.id) ? number(residual.get(row.id)) : "")));
  const overlap = round.overlap[i], entry = (kind, says) => [swatch(kind), says];
  return [
    make("h3", drafted ? "What target and draft expected here" : "What the target expected here"),
    tableOf({id: "likely"}, null, heads.filter(head => head !== false), body),
    drafted && legend(entry("accepted", "accepted: min(" + p + ", q)" + (P ? "" : ", in all " + number(overlap))),
      entry("rejected", "rejected: what q has too much"),
      entry("residual", "residual: what " + p + " has beyond q" + (P ? "" : ", each " + number(1 - overlap)))),
    state.run.coupled && drafted && make("p.soft", "So the token rule would decide; the noise decides otherwise."),
  ];
}

// ---------------------------------------------------------------- the coin

// [verdict, what follows] for a coin u that may not be the one that fell.
function verdictOf(item, round, u) {
  const accepted = u < round.p[item.i] / round.q[item.i], after = round.draft[item.i + 1];
  const verdict = accepted ? "Below p/q: accepted." : "Not below p/q: rejected.";
  if (accepted === (item.kind === "draft")) return [verdict, "The text stays as it is."];
  const follows = !accepted ? "A token from the residual takes its place: "
      + residualAt(round, item.i).slice(0, 4).map(([id, mass]) => quoted(id) + " " + percent(mass)).join(", ") + ", …"
    : after === undefined ? "A bonus token from the target’s last row follows."
    : "The next draft, " + quoted(after) + ", is examined: p/q = " + number(round.p[item.i + 1] / round.q[item.i + 1]) + ".";
  return [verdict, follows + (live ? "" : " The text from there on needs the models: python main.py play.")];
}

// A slider on the bar of min(1, p/q). Dragging it says what verdict and replacement would be;
// letting go asks the models for the text that would have followed.
function coinSlider(item, round) {
  const fell = round.coins[item.i], ratio = Math.min(1, round.p[item.i] / round.q[item.i]);
  const edge = x => x < .2 ? "low" : x > .8 ? "high" : "mid";
  const mark = make("span"), would = make("p.soft", {id: "would", "aria-live": "polite"},
    "Drag the coin, or use the arrow keys.");
  const show = u => {
    mark.className = "u " + edge(u);
    mark.textContent = "u = " + number(u);
    Object.assign(mark.style, at(u));
  };
  const coin = slider({id: "coin", min: "0", max: "0.999", step: "0.001",
    "aria-label": "The coin u; accepted below " + number(ratio)}, fell,
    u => number(u) + ", " + (u < ratio ? "accepted" : "rejected"), u => {
      const [verdict, follows] = verdictOf(item, round, u);
      show(u);
      would.replaceChildren(make(u < ratio ? "b.accepts" : "b.rejects", verdict), " " + follows);
    });
  if (live) coin.addEventListener("change", () => changeCoin(item, round.numbers[item.i], Number(coin.value)));
  show(fell);
  const limit = make("span.r." + edge(ratio), {style: at(ratio)}, "min(1, p/q) = " + number(ratio));
  return make("div.coin-box",
    make("div.coin", make("i", {style: width(ratio)}), coin, mark, limit), would);
}

// K and temperature from the round after this one on.
function restForm(item) {
  const next = item.r + 1;
  const change = state.edits.changes.findLast(change => change.round <= next) || state.base.settings;
  const submit = event => {
    event.preventDefault();
    changeRest(next, Number(form.K.value), Number(form.temperature.value));
  };
  const form = make("form.rest.row", {submit}, make("span.soft", "From round " + (next + 1) + " on:"),
    field("K", change.K), field("temperature", change.temperature), make("button", {type: "submit"}, "Write on"));
  return form;
}

function select(item) {
  selected = item;
  for (const group of ["text", "rounds"]) {
    // one stop of the tab key in each: the selected token, or the nearest before it
    const all = [...$(group).querySelectorAll("button")];
    stopAt(all, all.findLast(element => element.item.n <= item.n) || all[0]);
    for (const element of all) element.setAttribute("aria-pressed", String(element.item === item));
  }
  const round = state.run.rounds[item.r];
  $("h-panel").textContent = "Decision " + (item.n + 1) + " of " + items.length;
  put("detail", decision(item, round));
  put("coin-place", item.drafted && round.coins[item.i] !== undefined && coinSlider(item, round));
  put("more", item.kind !== "unexamined" && distributions(item, round),
    make("p.soft", "This round: " + timesOf(round) + "."),
    live && item.r + 1 < state.run.rounds.length && restForm(item));
  $("before").disabled = item.n === 0;
  $("after").disabled = item.n === items.length - 1;
}

function stepItem(step) {
  select(items[selected.n + step]);
  announce(spoken(selected.id) + ", " + NAMES[selected.kind] + ". " + $("because").textContent);
}

$("before").addEventListener("click", () => stepItem(-1));
$("after").addEventListener("click", () => stepItem(1));
for (const group of ["text", "rounds"]) {
  arrowKeys($(group), element => select(element.item), element => element.item.r);
}

// ---------------------------------------------------------------- what was changed

// A change makes all later ones meaningless: their rounds and coins are those of another text.
function changeCoin(item, index, u) {
  const coins = state.edits.coins.filter(([other]) => other < index);
  const changes = state.edits.changes.filter(change => change.round <= item.r);
  const says = "coin of " + quoted(item.id) + " in round " + (item.r + 1) + " set to " + number(u);
  askWhatIf({coins: [...coins, [index, u, says]], changes}, {r: item.r, i: item.i});
}

function changeRest(round, K, temperature) {
  const known = state.run.rounds.slice(0, round).flatMap(one => one.numbers);
  const coins = state.edits.coins.filter(([index]) => index <= Math.max(-1, ...known));
  const changes = state.edits.changes.filter(change => change.round < round);
  askWhatIf({coins, changes: [...changes, {round, K, temperature}]}, {r: round, i: 0});
}

function showEdits() {
  const {coins, changes} = state.edits;
  const said = [...coins.map(([, , says]) => says), ...changes.map(change =>
    "K = " + change.K + " and temperature " + change.temperature + " from round " + (change.round + 1) + " on")];
  $("edits").hidden = !said.length;
  put("edits", make("p", make("b", "What if? "), said.join("; ") + "."),
    button("Back to the original", "original", () => {
      showMicroscope(state.base);
      announce("the original text");
    }));
}

// Show a run, with the decision at place selected.
function showMicroscope(run, edits, place) {
  state.run = run;
  state.edits = edits || {coins: [], changes: []};
  items = itemsOf(run);
  for (const show of [showText, showRounds, showCounts, showLedger, showEdits]) show(run);
  const wanted = place && items.find(item => item.r === place.r && item.i === place.i);
  select(wanted || items.find(item => item.kind === "rejected") || items[0]);
}
