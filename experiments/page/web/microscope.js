// ---------------------------------------------------------------- the microscope
// One item for each draft and each token of the target: {r, i, id, kind, drafted, shown, buttons}.
// i is its place in the round; shown is null where the token is not in the text.

let items = [], selected = null;

function itemsOf(run) {
  const found = [];
  run.rounds.forEach((round, r) => {
    round.draft.forEach((id, i) => {
      const kind = i < round.accepted ? "draft" : i < round.examined ? "rejected" : "unexamined";
      found.push({r, i, id, kind, drafted: true, shown: i < round.accepted ? round.shown[i] : null});
    });
    const last = round.accepted;
    if (last < round.tokens.length) {
      found.push({r, i: last, id: round.tokens[last], kind: round.sources[last], drafted: false,
        shown: round.shown[last]});
    }
  });
  found.forEach((item, n) => { item.n = n; item.buttons = []; });
  return found;
}

function button(item, style, text, ...more) {
  const label = (spoken(item.id) || "empty") + ", " + NAMES[item.kind] + ", round " + (item.r + 1);
  const element = make("button." + style + "." + item.kind,
    {type: "button", "aria-label": label, "aria-pressed": "false", tabindex: "-1"}, text, ...more);
  element.addEventListener("click", () => select(item));
  element.item = item;
  item.buttons.push(element);
  return element;
}

function showText(run) {
  const legend = Object.entries(MEANINGS).map(([kind, meaning]) => {
    const n = items.filter(item => item.kind === kind).length;
    return n ? make("li", null, make("span.token." + kind, null, NAMES[kind]), " " + meaning + " (" + n + ")") : "";
  });
  $("legend").replaceChildren(...legend);
  const parts = firstOther(run), text = [make("span.soft", null, run.prompt)];
  let n = 0;
  for (const item of items.filter(item => item.shown !== null)) {
    if (n++ === parts) text.push(make("span.parting", null, "from here on another text"));
    text.push(button(item, "token", item.shown.replace(/\n/g, "⏎") || "·"),
      "\n".repeat(item.shown.split("\n").length - 1));
  }
  $("text").replaceChildren(...text);
  $("plain").textContent = run.prompt + items.map(item => item.shown || "").join("");
}

// Whether drafts were verified together, by sampling.verify_block.
const inBlocks = run => run.settings.verification === "block";

// The first token in which a what-if leaves the run it came from.
function firstOther(run) {
  if (run === state.base) return null;
  const before = state.base.figures.token_ids, after = run.figures.token_ids;
  const n = after.findIndex((token, i) => token !== before[i]);
  return n < 0 ? null : n;
}

function showRounds(run) {
  $("how").textContent = inBlocks(run)
    ? "Each row is one pass of the target. The bar under a draft is P, the chance that the block up to "
      + "it is kept. Coins are tossed from the longest block down; what is kept is followed by a token "
      + "from what it leaves uncovered, and the rest is forgotten."
    : run.coupled
    ? "Each row is one pass of the target. A draft stays while it is the token that the target "
      + "itself chooses under the same noise; at the first other one the target’s choice takes its place."
    : "Each row is one pass of the target. The bar under a draft is min(1, p/q), the tick is the "
      + "coin u: it stays where the tick falls on the bar. At the first that does not, a token from "
      + "the residual takes its place, and the rest is forgotten.";
  const longest = Math.max(...run.rounds.map(round => sum(round.seconds)));
  $("rounds").replaceChildren(...run.rounds.map((round, r) => {
    const chips = make("div.chips");
    for (const item of items.filter(item => item.r === r)) {
      const u = round.coins[item.i], ratio = round.p[item.i] / round.q[item.i];
      const tick = u === undefined ? null : make("b", {style: at(u)});
      const share = round.support ? round.support[item.i] : ratio;
      const meter = item.drafted && (tick || round.support)
        ? make("span.meter", null, make("i", {style: width(share)}), tick) : null;
      chips.append(button(item, "chip", word(item.id), meter));
    }
    const shares = PARTS.map((part, i) => make("i.of-" + part, {style: width(round.seconds[i] / longest)}));
    const title = PARTS.map((part, i) => part + " " + ms(round.seconds[i])).join(", ");
    return make("div.round", {role: "group", "aria-label": "round " + (r + 1)},
      make("span.soft.number", null, String(r + 1)),
      make("span.number", {title: "accepted of examined"}, round.accepted + "/" + round.examined),
      chips,
      make("span.times", {title}, make("span.stack", null, ...shares),
        make("span.number", null, ms(sum(round.seconds)))));
  }));
}

function showCounts(run) {
  const most = Math.max(...run.rounds.map(round => round.draft.length));
  const counts = Array.from({length: most + 1}, (_, n) =>
    run.rounds.filter(round => round.accepted === n).length);
  const rows = counts.map((n, i) => barRow(String(i), [bar(n / Math.max(...counts))], [String(n)]));
  const parts = [tableOf(null, ["Rounds by the number of drafts they accepted"], ["accepted", "", "rounds"], rows)];
  const places = Array.from({length: most}, (_, i) => [
    run.rounds.filter(round => round.examined > i).length,
    run.rounds.filter(round => round.accepted > i).length]);
  const kept = places.filter(([examined]) => examined).map(([examined, accepted], i) =>
    barRow(String(i + 1), [bar(accepted / examined)], [percent(accepted / examined), accepted + " of " + examined]));
  if (kept.length) {
    parts.push(make("h3", null, "By place in the draft"),
      tableOf(null, ["Of the drafts examined at each place, those accepted"], ["place", "", "accepted", ""], kept));
  }
  $("histogram").replaceChildren(...parts);
}

function showLedger(run) {
  const what = ["drafting: passes of the draft, or the look-up", "the target’s passes",
    "the rule, the filter and the loop"];
  const totals = PARTS.map((_, i) => sum(run.rounds.map(round => round.seconds[i])));
  const shares = totals.map(total => total / sum(totals));
  const rows = PARTS.map((part, i) => barRow(what[i], [swatch("of-" + part)],
    [ms(totals[i]), ms(totals[i] / run.rounds.length), percent(shares[i])], "part"));
  $("ledger").replaceChildren(
    make("div.stack.tall", {role: "img",
      "aria-label": PARTS.map((part, i) => part + " " + percent(shares[i])).join(", ")},
      ...PARTS.map((part, i) => make("i.of-" + part, {style: width(shares[i])}))),
    tableOf(null, null, ["part", "", "total", "a round", "share"], rows),
    make("p.soft", null, "Decoding only: reading the prompt took " + ms(run.figures.prefill_seconds)
      + " before the first round. The time it took to note all this is not counted."));
}

// ---------------------------------------------------------------- one decision

function explain(item, round, coupled) {
  const p = round.p[item.i], q = round.q[item.i];
  if (item.kind === "unexamined") {
    return round.tokens.length > round.accepted
      ? "Never looked at: a draft before it was rejected, and it continues a text that is no more."
      : "Never looked at: the text had ended.";
  }
  const here = quoted(round.tokens[item.i]), rejected = () => quoted(round.draft[round.accepted]);
  const underNoise = {
    draft: () => "Under the noise of this position draft and target chose the same token.",
    rejected: () => "Under the same noise the target chose " + here + ", so the draft’s choice goes.",
    correction: () => "The target’s own choice under the noise of this position; the draft had chosen " + rejected() + ".",
    bonus: () => "All drafts agreed; the target’s last row gave its choice for one more position, for free.",
    target: () => "Nothing was drafted: the target’s own choice under the noise of this position.",
  };
  const usual = {
    draft: () => p >= q ? "p is at least q, so it is accepted whatever the coin shows."
      : "The coin fell below p/q = " + number(p / q) + ": accepted.",
    rejected: () => "The coin did not fall below p/q = " + number(p / q) + ": rejected. "
      + here + " was sampled from the residual in its place.",
    correction: () => "Sampled from the residual, norm(max(0, p − q)), in place of the rejected " + rejected() + ".",
    bonus: () => "All drafts were accepted; the target’s last row gave one more token, sampled from p, for free.",
    target: () => "Nothing was drafted: sampled from p, as in plain decoding.",
  };
  const together = {
    draft: () => "The block up to it was kept; the chance of that was P = " + number(round.support[item.i]) + ".",
    rejected: () => "The block ended before it: " + here + " was sampled from what the block leaves uncovered.",
    correction: () => "Sampled from norm(max(0, P p − q)), what the kept block leaves uncovered, in place of "
      + rejected() + ".",
    bonus: usual.bonus,
    target: usual.target,
  };
  return (coupled ? underNoise : round.support ? together : usual)[item.kind]();
}

// The decision itself: the word, the verdict and its reason.
function decision(item, round) {
  const parts = [make("div.decision", null, make("p.word", null, word(item.id)),
    make("span.verdict." + item.kind, null, NAMES[item.kind]),
    make("span.soft", null, "round " + (item.r + 1) + ", id " + item.id)),
    make("p", {id: "because"}, explain(item, round, state.run.coupled))];
  if (!item.drafted) return parts;
  const p = round.p[item.i], q = round.q[item.i], u = round.coins[item.i];
  const facts = [["p (target)", p], ["q (draft)", q], ["p / q", p / q], ["u (coin)", u],
    ["P (block)", round.support ? round.support[item.i] : undefined]];
  parts.push(make("dl", {id: "numbers"}, ...facts.filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) => [make("dt", null, name), make("dd", null, number(value))])));
  return parts;
}

// What surrounds it: the two distributions and the residual.
function surroundings(item, round) {
  const parts = [], likely = round.likely[item.i];
  if (item.drafted && item.kind !== "unexamined") {
    parts.push(make("p.soft", null, "Before the draft was sampled, its chance to be accepted "
      + (state.run.coupled ? "by the token rule " : "") + "was Σ min(p, q) = " + number(round.overlap[item.i]) + "."));
  }
  if (likely && item.kind !== "unexamined") parts.push(...likelyTable(item, likely));
  if (round.residual && ["rejected", "correction"].includes(item.kind)) {
    parts.push(...residualTable(round.residual, round.tokens[item.i]));
  }
  parts.push(make("p.soft", null, "This round: "
    + PARTS.map((part, i) => part + " " + ms(round.seconds[i])).join(", ") + "."));
  return parts;
}

function likelyTable(item, likely) {
  const two = likely[0][2] !== null, most = Math.max(...likely.flatMap(([, p, q]) => [p, q || 0]));
  const kept = list => two ? list : list.slice(0, 1);
  const rows = likely.map(([id, p, q]) => barRow(word(id), kept([p, q]).map(x => bar(x / most)),
    kept([p, q]).map(number), id === item.id ? "chosen" : ""));
  const heads = ["token", "", ...kept([[swatch("of-target"), "p"], [swatch("of-draft"), "q"]])];
  return [make("h3", null, two ? "What target and draft expected here" : "What the target expected here"),
    tableOf({id: "likely"}, null, heads, rows)];
}

function residualTable(residual, token) {
  const most = Math.max(...residual.map(([, mass]) => mass));
  const rows = residual.map(([id, mass]) => barRow(word(id), [bar(mass / most, "residual")],
    [number(mass) + (id === token ? " sampled" : "")], id === token ? "chosen" : ""));
  return [make("h3", null, inBlocks(state.run) ? "The residual, norm(max(0, P p − q))"
    : "The residual, norm(max(0, p − q))"), tableOf({id: "residual"}, null, null, rows)];
}

// ---------------------------------------------------------------- the coin

// What would replace a draft of the token rule: the residual of the likeliest tokens. It sums to
// 1 - sum(min(p, q)) before it is divided by that.
function residualAt(round, i) {
  if (round.residual && i === round.accepted) return round.residual;
  const rest = round.likely[i].map(([id, p, q]) => [id, Math.max(0, p - q)]).filter(([, mass]) => mass);
  const total = Math.max(1 - round.overlap[i], sum(rest.map(([, mass]) => mass)));
  return rest.map(([id, mass]) => [id, mass / total]).sort(([, a], [, b]) => b - a);
}

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
  const edge = x => x < .2 ? " low" : x > .8 ? " high" : "";
  const mark = make("span"), would = make("p.soft", {id: "would", "aria-live": "polite"},
    "Drag the coin, or use the arrow keys.");
  const show = u => {
    mark.className = "u" + edge(u);
    mark.textContent = "u = " + number(u);
    Object.assign(mark.style, at(u));
  };
  const coin = slider({id: "coin", min: "0", max: "0.999", step: "0.001",
    "aria-label": "The coin u; accepted below " + number(ratio)}, fell,
    u => number(u) + ", " + (u < ratio ? "accepted" : "rejected"), u => {
      const [verdict, follows] = verdictOf(item, round, u);
      show(u);
      would.replaceChildren(make(u < ratio ? "b.accepts" : "b.rejects", null, verdict), " " + follows);
    });
  if (live) coin.addEventListener("change", () => changeCoin(item, round.numbers[item.i], Number(coin.value)));
  show(fell);
  const limit = make("span", {class: "r" + edge(ratio), style: at(ratio)}, "min(1, p/q) = " + number(ratio));
  return make("div.coin-box", null,
    make("div.coin", null, make("i", {style: width(ratio)}), coin, mark, limit), would);
}

// K and temperature from the round after this one on.
function restForm(item) {
  const settings = settingsAfter(item.r), form = make("form.rest", null,
    make("span.soft", null, "From round " + (item.r + 2) + " on:"),
    field("K", settings.K), field("temperature", settings.temperature),
    make("button", {type: "submit"}, "Write on"));
  form.addEventListener("submit", event => {
    event.preventDefault();
    changeRest(item.r + 1, Number(form.K.value), Number(form.temperature.value));
  });
  return form;
}

function settingsAfter(r) {
  const change = state.edits.changes.findLast(change => change.round <= r + 1);
  return change || state.base.settings;
}

function select(item) {
  for (const element of selected ? selected.buttons : []) {
    element.setAttribute("aria-pressed", "false");
    element.tabIndex = -1;
  }
  selected = item;
  for (const group of ["text", "rounds"]) {
    // one stop of the tab key in each: the selected token, or the nearest before it
    const all = [...$(group).querySelectorAll("button")];
    const here = all.findLast(element => element.item.n <= item.n) || all[0];
    for (const element of all) element.tabIndex = element === here ? 0 : -1;
  }
  for (const element of item.buttons) element.setAttribute("aria-pressed", "true");
  const round = state.run.rounds[item.r];
  $("h-panel").textContent = "Decision " + (item.n + 1) + " of " + items.length;
  $("detail").replaceChildren(...decision(item, round));
  const tossed = item.drafted && round.coins[item.i] !== undefined;
  $("coin-place").replaceChildren(...(tossed ? [coinSlider(item, round)] : []));
  $("more").replaceChildren(...surroundings(item, round));
  if (live && item.r + 1 < state.run.rounds.length) $("more").append(restForm(item));
  $("before").disabled = item.n === 0;
  $("after").disabled = item.n === items.length - 1;
}

function stepItem(step) {
  const to = items[selected.n + step];
  if (!to) return;
  select(to);
  announce(spoken(to.id) + ", " + NAMES[to.kind] + ". " + $("because").textContent);
}

$("before").addEventListener("click", () => stepItem(-1));
$("after").addEventListener("click", () => stepItem(1));
for (const group of ["text", "rounds"]) $(group).addEventListener("keydown", event => {
  const all = [...$(group).querySelectorAll("button")], here = all.indexOf(document.activeElement);
  const r = here >= 0 ? all[here].item.r : 0;
  const to = {ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: all.length - 1,
    ArrowDown: all.findIndex(element => element.item.r > r),
    ArrowUp: all.findIndex(element => element.item.r === r - 1)}[event.key];
  if (to === undefined || here < 0) return;
  event.preventDefault();
  if (all[to]) { all[to].focus(); select(all[to].item); }
});

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
  const back = make("button", {type: "button", id: "original"}, "Back to the original");
  back.addEventListener("click", () => { showMicroscope(state.base, null); announce("the original text"); });
  $("edits").replaceChildren(make("p", null, make("b", null, "What if? "), said.join("; ") + "."), back);
}

// Show a run, with the decision at place selected.
function showMicroscope(run, edits, place) {
  state.run = run;
  state.edits = edits || {coins: [], changes: []};
  items = itemsOf(run);
  selected = null;
  showText(run);
  showRounds(run);
  showCounts(run);
  showLedger(run);
  showEdits();
  const wanted = place && items.find(item => item.r === place.r && item.i === place.i);
  select(wanted || items.find(item => item.kind === "rejected") || items[0]);
}
