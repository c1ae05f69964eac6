// ---------------------------------------------------------------- the microscope
// One item for each draft and each token of the target: {n, round, r, i, id, kind, shown}, and of a
// draft its numbers {p, q, ratio, u, P}. i is its place in the r-th round; shown is null where the
// token is not in the text, u where no coin was tossed for it alone, P where no block was verified.

let items = [], selected = null;

const kindOf = (round, i) =>
  i < round.accepted ? "draft" : i < round.examined ? "rejected" : "unexamined";

// The decision that shows most: a likely word is replaced by another, between accepted and dropped ones.
function tellingItem(all) {
  const rejected = all.filter(({kind}) => kind === "rejected");
  const areWords = ({id, round, r, i}) => /^ \p{L}+ \p{L}+[^\p{L}]/u.test(
    [id, round.tokens[i], all.find(item => item.r > r)?.round.tokens[0]].map(id => words[id]).join(""));
  const shown = ({round, i, p, q}) => i && (p + q) * (round.draft.length - 1 - i);
  return rejected.filter(areWords).sort((a, b) => shown(b) - shown(a))[0] || rejected[0];
}

function itemsOf(run) {
  return run.rounds.flatMap((round, r) => {
    const own = round.accepted, drafts = round.draft.map((id, i) => {
      const kind = kindOf(round, i), u = round.coins[i] ?? null;
      const p = round.p[i], q = round.q[i];
      return {round, r, i, id, kind, shown: i < own ? round.shown[i] : null, drafted: true,
        p, q, ratio: p / q, u, P: round.support ? round.support[i] : null};
    });
    const target = round.tokens.slice(own).map(id =>
      ({round, r, i: own, id, kind: round.sources[own], shown: round.shown[own]}));
    return [...drafts, ...target];
  }).map((item, n) => ({...item, n}));
}

function itemButton(item, style, ...content) {
  const label = `${spoken(item.id) || "empty"}, ${NAMES[item.kind]}, round ${item.r + 1}`;
  const element = make(`button.${style}.${item.kind}`, {type: "button", "aria-label": label,
    "aria-pressed": "false", tabindex: "-1", click: () => select(item)}, content);
  element.item = item;
  return element;
}

function showText(run) {
  put("legend", legendOf("draft", "target"));
  const parts = firstOther(run), text = items.filter(item => item.shown !== null);
  put("text", make("span.soft", plainly(run.prompt)), text.map((item, n) => [
    n === parts && make("span.parting", "another text from here"),
    itemButton(item, "token", inText(item.shown).replace(/\n/g, "")),
    "\n".repeat(item.shown.split("\n").length - 1)]));
}

// The first token in which a what-if leaves the run it came from.
function firstOther(run) {
  const before = state.base.figures.token_ids;
  return run.figures.token_ids.findIndex((token, i) => token !== before[i]);
}

const ruleOf = run => run.coupled ? "coupled" : run.settings.verification || "token";

// A guess that is kept or not by a coin, and not by the probabilities alone as at temperature 0.
const hasCoin = item => item.drafted && item.u !== null && !isCertain(item);
const isCertain = ({p, q}) => q === 1 && (p === 0 || p === 1);

const meter = item => (hasCoin(item) || (item.P ?? null) !== null) && make("span.meter",
  make("i", {style: width(item.P ?? item.ratio)}), item.u !== null && make("b", {style: at(item.u)}));

function showRounds(run) {
  const isByCoins = items.some(hasCoin);
  $("how-coins").hidden = ruleOf(run) !== "token" || !isByCoins;
  $("drag").hidden = !isByCoins;
  $("certain").hidden = isByCoins || run.settings.temperature > 0;
  put("rounds", run.rounds.map((round, r) => {
    const chips = items.filter(item => item.r === r).map(item =>
      itemButton(item, "chip", word(item.id), meter(item)));
    return make("div.round", {role: "group", "aria-label": `round ${r + 1}`},
      make("span.soft", r + 1), make("div.row", chips));
  }));
}

// ---------------------------------------------------------------- one decision

function explain({kind, round, i, p, q, ratio, u, P}) {
  if (kind === "unexamined") {
    return "Never examined: " + (round.tokens.length > round.accepted
      ? "a guess before it was rejected, and it followed that guess."
      : "the text had ended.");
  }
  const instead = round.accepted < round.draft.length && quoted(round.draft[round.accepted]);
  const here = quoted(round.tokens[i]), rule = ruleOf(state.run);
  const verdict = kind === "draft" ? "accepted." : "rejected. ";
  if (isCertain({p, q})) return `The large model’s only choice here is ${here}: ${verdict}`;
  const tossed = `The small model gave it q = ${number(q)}, the large one only p = ${number(p)}: `
    + `its chance to stay is p/q = ${number(ratio)}. `
    + `The coin, a random number from 0 to 1, is ${number(u)}: ${verdict}`;
  const accepted = {
    token: p < q ? tossed : `The large model gives it p = ${number(p)}, no less than `
      + `the small one’s q = ${number(q)}: accepted whatever the coin shows.`,
    block: `The block up to it was kept; the chance of that was P = ${number(P)}.`,
    coupled: "Both models chose the same token under the noise of this place.",
  };
  const residual = {token: "norm(max(0, p − q))", block: "norm(max(0, P p − q))"}[rule];
  const source = residual
    ? `drawn from what the large model likes more than the small one, the residual ${residual}`
    : "the large model’s choice under the same noise";
  return {
    draft: accepted[rule],
    rejected: (rule === "token" ? tossed : "Rejected. ") + `${here} takes its place, ${source}.`,
    correction: `${sentence(source).slice(0, -1)}, in place of the rejected ${instead}.`,
    bonus: "All guesses were accepted; the same pass gave one more token, sampled from p, for free.",
    target: "Nothing was guessed: sampled from p, as by the large model alone.",
  }[kind];
}

// ---------------------------------------------------------------- p and q

// The likeliest tokens at a place of a round, from q’s greatest excess to p’s greatest:
// [{id, p, q, over}]; over is p’s excess over q. Where nothing was drafted, q and over are null.
// The block rule holds P p against q, P being the chance that the drafts before are kept.
function rowsAt(round, i) {
  const P = round.support && i > 0 ? round.support[i - 1] : 1;
  const row = ([id, p, q]) => ({id, p: P * p, q, over: q === null ? null : P * p - q});
  return round.likely[i].map(row).sort((a, b) => a.over - b.over);
}

// What replaces a draft if it is rejected: [[token, mass]] of the likeliest, best first. It is noted
// where one was rejected. Elsewhere the token rule’s is computed: all of it sums to
// 1 - sum(min(p, q)) before it is divided by that.
function residualAt(round, i) {
  if (round.residual && i === round.accepted) return round.residual;
  const rest = rowsAt(round, i).filter(({over}) => over > 0);
  const total = Math.max(1 - round.overlap[i], sum(rest.map(({over}) => over)));
  return rest.map(({id, over}) => [id, over / total]).reverse();
}

// The picture of the rule: p and q as two areas over the same tokens, a row each. What they share
// is accepted, q’s excess is rejected, and p’s excess is filled from the residual.
function areas(rows, drafted) {
  const n = rows.length, most = Math.max(...rows.flatMap(({p, q}) => [p, q]));
  const area = (kind, i, from, to) => to > from && make("svg:rect." + kind, {x: share(from / most),
    width: share((to - from) / most), y: share(i / n), height: share(1 / n)});
  const outline = name => make("svg:path." + name,
    {d: `M0 0${rows.map((row, i) => `H${row[name] / most}V${i + 1}`).join("")}H0`});
  const more = (one, other) =>
    rows.filter(row => row[one] > row[other]).map(({id}) => quoted(id)).join(", ") || "no token";
  const title = drafted ? "p and q over the same tokens" : "p over its likeliest tokens";
  const says = !drafted ? "Nothing was guessed here."
    : `q’s excess: ${more("q", "p")}, which may be rejected. `
      + `p’s excess: ${more("p", "q")}, which the residual fills.`;
  const hatch = {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse"};
  return make("svg:svg.areas",
    {role: "img", "aria-labelledby": "areas-title", "aria-describedby": "areas-desc"},
    make("svg:title", {id: "areas-title"}, title), make("svg:desc", {id: "areas-desc"}, says),
    make("svg:defs", make("svg:pattern", hatch, make("svg:path.hatch", {d: "M0 6L6 0"}))),
    rows.map(({p, q}, i) => !drafted ? area("sampled", i, 0, p) : [
      area("accepted", i, 0, Math.min(p, q)), area("rejected", i, p, q),
      area("residual", i, q, p)]),
    make("svg:svg", {viewBox: `0 0 1 ${n}`, preserveAspectRatio: "none"},
      drafted && outline("q"), outline("p")));
}

// The picture in a table of its numbers.
function distributions({round, i, id, kind}) {
  const rows = rowsAt(round, i), drafted = rows[0].q !== null, {coupled} = state.run;
  const replaced = drafted && !coupled && ["rejected", "correction"].includes(kind);
  const residual = new Map(replaced ? residualAt(round, i) : []);
  const P = round.support && i > 0, p = P ? "P p" : "p", overlap = round.overlap[i];
  const heads = ["token", "", [swatch("of-target"), `large (${p})`],
    drafted && [swatch("of-draft"), "small (q)"],
    replaced && make("span", {id: "residual"}, "residual")].filter(head => head !== false);
  const cell = x => make("td.number", number(x));
  const body = rows.map((row, n) => make(row.id === id ? "tr.chosen" : "tr",
    make("th", {scope: "row"}, word(row.id)),
    n === 0 && make("td.picture", {rowspan: rows.length}, areas(rows, drafted)),
    cell(row.p), drafted && cell(row.q), replaced && cell(residual.get(row.id))));
  return [
    make("h3", `What ${drafted ? "both models" : "the large model"} expected here`),
    tableOf({id: "likely"}, heads, body),
    drafted && make("ul.legend",
      make("li", swatch("accepted"), `accepted: min(${p}, q)`, !P && `, in all ${number(overlap)}`),
      make("li", swatch("rejected"), "rejected: q’s excess"),
      make("li", swatch("residual"), `residual: ${p}’s excess`)),
    drafted && coupled && make("p.soft", "This is how the token rule decides; here the noise does."),
  ];
}

// ---------------------------------------------------------------- the coin

// Whether the text stays as it is with this coin u.
const stays = ({kind, ratio}, u) => (u < ratio) === (kind === "draft");

// [verdict, what follows] for a coin u that may not be the one that fell.
function verdictOf(item, u) {
  const {round, i, ratio} = item, accepted = u < ratio;
  const verdict = accepted ? "Below p/q: accepted." : "Not below p/q: rejected.";
  if (stays(item, u)) return [verdict, "The text stays as it is."];
  const likeliest = accepted ? [] : residualAt(round, i).slice(0, 4);
  const follows = !accepted ? "A token from the residual takes its place: "
      + likeliest.map(([id, mass]) => `${quoted(id)} ${percent(mass)}`).join(", ") + ", …"
    : i + 1 === round.draft.length ? "An extra token of the large model follows."
    : `The next guess, ${quoted(round.draft[i + 1])}, is examined: `
      + `p/q = ${number(round.p[i + 1] / round.q[i + 1])}.`;
  const models = " The text from there on needs the models: python main.py play.";
  return [verdict, follows + (live ? "" : models)];
}

// A slider on the bar of min(1, p/q). Dragging it says what verdict and replacement would be;
// letting go asks the models for the text that would have followed.
function coinSlider(item) {
  const ratio = Math.min(1, item.ratio), mark = make("span.u");
  const would = make("p.soft", {id: "would", "aria-live": "polite"},
    "Drag the coin, or use the arrow keys.");
  const show = u => {
    mark.textContent = "u = " + number(u);
    Object.assign(mark.style, {left: `clamp(2.3rem, ${share(u)}, 100% - 2.3rem)`});
  };
  const say = u => number(u) + (u < ratio ? ", accepted" : ", rejected");
  const moved = u => {
    const [verdict, follows] = verdictOf(item, u);
    show(u);
    would.replaceChildren(make(u < ratio ? "b.accepts" : "b.rejects", verdict), " " + follows);
  };
  const change = () => {
    const u = Number(coin.value);
    if (live && !stays(item, u)) changeCoin(item, u);
  };
  const coin = slider({id: "coin", min: 0, max: .999, step: .001, change,
    "aria-label": `The coin u; accepted below ${number(ratio)}`}, item.u, say, moved);
  show(item.u);
  const limit = make("span.r", {style: {left: `clamp(4.2rem, ${share(ratio)}, 100% - 4.2rem)`}},
    `min(1, p/q) = ${number(ratio)}`);
  return [make("div.coin", make("i", {style: width(ratio)}), coin, mark, limit), would];
}

// K and temperature from the round after this one on.
function restForm(next) {
  const before = state.edits.changes.findLast(({round}) => round <= next) || state.base.settings;
  const submit = event => {
    event.preventDefault();
    changeRest(next, Number(form.K.value), Number(form.temperature.value));
  };
  const form = make("form.rest.row", {submit}, make("span.soft", `From round ${next + 1} on:`),
    field("K", before.K), field("temperature", before.temperature),
    make("button", {type: "submit"}, "Write on"));
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
  $("h-panel").textContent = `Decision ${item.n + 1} of ${items.length}`;
  put("detail",
    make("div.row", make("p.word", word(item.id)),
      make("span.verdict." + item.kind, NAMES[item.kind]),
      make("span.soft", `round ${item.r + 1}, id ${item.id}`)),
    make("p", {id: "because"}, explain(item)), hasCoin(item) && coinSlider(item));
  put("more", item.kind !== "unexamined" && distributions(item),
    live && item.r + 1 < state.run.rounds.length && restForm(item.r + 1));
  $("before").disabled = item.n === 0;
  $("after").disabled = item.n === items.length - 1;
}

function stepItem(step) {
  select(items[selected.n + step]);
  announce(`${spoken(selected.id)}, ${NAMES[selected.kind]}. ${$("because").textContent}`);
}

$("before").addEventListener("click", () => stepItem(-1));
$("after").addEventListener("click", () => stepItem(1));
for (const group of ["text", "rounds"]) {
  arrowKeys($(group), element => select(element.item), element => element.item.r);
}

// ---------------------------------------------------------------- what was changed

// A change makes all later ones meaningless: their rounds and coins are those of another text.
function changeCoin({round, r, i, id}, u) {
  const index = round.numbers[i], coins = state.edits.coins.filter(([other]) => other < index);
  const changes = state.edits.changes.filter(change => change.round <= r);
  const says = `coin of ${quoted(id)} in round ${r + 1} set to ${number(u)}`;
  askWhatIf({coins: [...coins, [index, u, says]], changes}, {r, i});
}

function changeRest(round, K, temperature) {
  const known = state.run.rounds.slice(0, round).flatMap(one => one.numbers)
    .filter(number => number !== null);
  const coins = state.edits.coins.filter(([index]) => index <= Math.max(-1, ...known));
  const changes = state.edits.changes.filter(change => change.round < round);
  askWhatIf({coins, changes: [...changes, {round, K, temperature}]}, {r: round, i: 0});
}

function showEdits() {
  const said = [...state.edits.coins.map(([, , says]) => says),
    ...state.edits.changes.map(({round, K, temperature}) =>
      `K = ${K} and temperature ${temperature} from round ${round + 1} on`)];
  $("edits").hidden = !said.length;
  put("edits", make("p", make("b", "What if? "), said.join("; ") + "."),
    button("Back to the original", "original", () => {
      showMicroscope(state.base);
      $("text").querySelector("[tabindex='0']").focus({preventScroll: true});
      announce("the original text");
    }));
}

// Show a run, with the decision at place selected.
function showMicroscope(run, edits, place) {
  state.run = run;
  state.edits = edits || {coins: [], changes: []};
  items = itemsOf(run);
  for (const show of [showText, showRounds, showEdits]) show(run);
  const wanted = place && items.find(item => item.r === place.r && item.i === place.i);
  select(wanted || tellingItem(items) || items[0]);
}
