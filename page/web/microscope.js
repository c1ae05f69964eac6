// ---------------------------------------------------------------- the microscope
// One item for each decision and each token of the target: {n, round, r, i, id, kind, shown}, and of
// a draft its numbers {p, q, ratio, u, P}. i is its place in the r-th round; shown is null where the
// token is not in the text, u where no coin was tossed for it alone, P where no block was verified.

let items = [], selected = null;

const kindOf = (round, i) =>
  i < round.accepted ? "draft" : i < round.examined ? "rejected" : "unexamined";

// The decision that shows most: a likely word is replaced by another, between accepted and dropped ones.
function tellingItem(all) {
  const rejected = all.filter(({kind}) => kind === "rejected");
  const areWords = ({id, round, r, i}) => /^ \p{L}+ \p{L}+[^\p{L}]/u.test(
    [id, round.tokens[i], all.find(item => item.r > r)?.round.tokens[0]].map(id => words[id]).join(""));
  const shown = ({round, i, p, q}) => i * (i + 1) * (p + q) * (round.draft.length - 1 - i);
  return rejected.filter(areWords).sort((a, b) => shown(b) - shown(a))[0] || rejected[0];
}

function itemsOf(run) {
  return run.rounds.flatMap((round, r) => {
    const own = round.accepted, drafts = round.draft.slice(0, round.examined).map((id, i) => {
      const p = round.p[i], q = round.q[i];
      return {round, r, i, id, kind: kindOf(round, i), shown: i < own ? round.shown[i] : null,
        p, q, ratio: p / q, u: round.coins[i] ?? null,
        P: round.support ? round.support[i] : null};
    });
    const target = round.tokens.slice(own).map(id =>
      ({round, r, i: own, id, kind: round.sources[own], shown: round.shown[own]}));
    return [...drafts, ...target];
  }).map((item, n) => ({...item, n}));
}

function itemButton(item) {
  const label = `${spoken(item.id) || "empty"}, ${NAMES[item.kind]}, round ${item.r + 1}`;
  const element = make(`button.token.${item.kind}`, {type: "button", "aria-label": label,
    "aria-pressed": "false", tabindex: "-1", click: () => select(item)},
    inText(item.shown ?? words[item.id]).replace(/\n/g, "").replace(/^ (?=.)/, ""));
  element.item = item;
  return element;
}

// A rejected guess stands above the token that took its place.
function showText(run) {
  put("legend", legendOf("draft", "rejected", "correction", "bonus"), make("li", "⏎ a line break"));
  const text = items.filter(item => item.shown !== null);
  put("text", make("span.soft", plainly(run.prompt)), text.map(item => {
    const above = items[item.n - 1], own = itemButton(item);
    return [/^ ./.test(item.shown) && " ",
      above?.kind === "rejected" ? make("span.over", itemButton(above), own) : own,
      "\n".repeat(item.shown.split("\n").length - 1)];
  }));
}

const ruleOf = run => run.settings.coupled ? "coupled" : run.settings.verification || "token";

// A guess that is kept or not by a roll, and not by the probabilities alone as at temperature 0.
const hasCoin = ({u, p, q}) => (u ?? null) !== null && !(q === 1 && (p === 0 || p === 1));

// ---------------------------------------------------------------- one decision

function explain({kind, round, i, p, q, ratio, u, P}) {
  const odds = {
    token: p < q ? `The small model says it with probability q = ${number(q)}, the large one only with `
        + `p = ${number(p)}: it stays with p/q = ${number(ratio)}, as ${number(q)} × ${number(ratio)} = ${number(p)}. The roll from 0 to 1 was ${number(u)}. `
      : `The large model says it with p = ${number(p)}, no less than the small one with q = `
        + `${number(q)}: it stays, whatever is rolled. `,
    block: `The guesses up to this one stay together with probability P = ${number(P)}. `,
    coupled: "Both models choose under the same noise here. ",
  }[ruleOf(state.run)];
  const here = `${quoted(round.tokens[i])}, which the large model says more often than the small one`;
  return {
    draft: odds + "Accepted.",
    rejected: `${odds}Rejected. In its place comes ${here}.`,
    correction: `In place of the rejected guess comes ${here}: drawn from the missing pieces, each as often as it is large.`,
    bonus: "All guesses were accepted; the same pass gave one more token, drawn from p, for free.",
    target: "Nothing was guessed: drawn from p, as by the large model alone.",
  }[kind];
}

// ---------------------------------------------------------------- p and q

// The likeliest tokens at a place of a round, from q’s greatest excess to p’s greatest, and all others
// together: [{id, p, q, both, over}]. both is what p and q share, over p’s excess over that; where
// nothing was drafted, q is null. The block rule holds P p against q, P being the chance that the
// drafts before are kept.
function rowsAt(round, i) {
  const P = round.support && i > 0 ? round.support[i - 1] : 1;
  const rows = round.likely[i].map(([id, p, q]) => ({id, p: P * p, q, both: Math.min(P * p, q)}));
  const left = (whole, name) => Math.max(0, whole - sum(rows.map(row => row[name])));
  const drafted = rows[0].q !== null;
  const others = {id: null, p: left(P, "p"), q: drafted ? left(1, "q") : null,
    both: drafted && P === 1 ? left(round.overlap[i], "both") : 0};
  if (others.p + others.q > .0005) rows.push(others);
  for (const row of rows) row.over = row.p - row.both;
  const last = row => Number(row.id === null);
  return rows.sort((a, b) => last(a) - last(b) || (a.p - a.q) - (b.p - b.q));
}

// The picture of the rule: p and q as two areas over the same tokens, a row each. What they share
// is accepted, q’s excess is rejected, and p’s excess is filled from the residual.
function areas(rows, drafted) {
  const n = rows.length, most = 1.08 * Math.max(...rows.flatMap(({p, q}) => [p, q])); // draws vary
  const area = (kind, i, from, to) => to > from && make("svg:rect." + kind, {x: share(from / most),
    width: share((to - from) / most), y: share((i + .1) / n), height: share(.8 / n)});
  const outline = name => make("svg:path." + name,
    {d: rows.map((row, i) => `M0 ${i + .1}H${row[name] / most}V${i + .9}H0`).join("")});
  const hatch = {id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse"};
  const drawn = kind => rows.map((_, i) =>
    make("svg:rect.drawn." + kind, {y: share((i + .2) / n), height: share(.6 / n), width: 0}));
  const counts = {accepted: drawn("accepted"), residual: drawn("residual"), most};
  const element = make("svg:svg.areas", {role: "img", "aria-label": "p and q as areas over the same tokens"},
    make("svg:defs", make("svg:pattern", hatch, make("svg:path.hatch", {d: "M0 7L7 0"}))),
    rows.map(({p, q, both}, i) => !drafted ? area("sampled", i, 0, p) : [
      area("accepted", i, 0, both), area("rejected", i, both, q), area("residual", i, both, p)]),
    counts.accepted, counts.residual,
    make("svg:svg", {viewBox: `0 0 1 ${n}`, preserveAspectRatio: "none"},
      drafted && outline("q"), outline("p")));
  return {element, counts};
}

function showDistributions({round, i, id, kind}) {
  const rows = rowsAt(round, i), drafted = rows[0].q !== null, P = round.support && i > 0;
  const p = P ? "P p" : "p", {element, counts} = areas(rows, drafted), rule = ruleOf(state.run);
  const body = rows.map((row, n) => make(row.id === id ? "tr.chosen" : "tr",
    make("th", {scope: "row"}, row.id === null ? "all others" : listed(row.id)),
    n === 0 && make("td.picture", {rowspan: rows.length}, element),
    make("td.number", percent(row.p)), drafted && make("td.number", percent(row.q))));
  const head = (kind, ...text) => make(kind, {scope: "col"}, text);
  // all pieces that are cut off, end to end, and all that are missing
  const scale = Math.max(counts.most, 1.3 * (1 - round.overlap[i]));
  const foot = (says, kind, size) => make("tr", make("th", {scope: "row"}, says), make("td", make("div.pieces",
    rows.filter(row => size(row) > 0).map(row => make("i." + kind, {style: width(size(row) / scale)})),
    make("b", percent(1 - round.overlap[i])))));
  put("more",
    make("table", {id: "likely"}, make("thead", make("tr", head("th", "word"),
      head("th", make("span.line-p"), `${p}, large model`, drafted && [make("span.line-q"), "q, small model"]),
      head("th.number", p), drafted && head("th.number", "q"))), make("tbody", body),
      drafted && !P && make("tfoot", foot("cut off", "rejected", ({q, both}) => q - both),
        foot("missing", "residual", ({over}) => over))),
    drafted && make("ul.legend", make("li", swatch("accepted"), "both say it: the guess stays"),
      make("li", swatch("rejected"), "too much of q: cut off, the guess is rejected"),
      make("li", swatch("residual"), `missing from ${p}: replacements, a large gap more often`),
      rows.at(-1).id === null && make("li", make("span.swatch.residual.hatched"), "all others: some words cut, some missing")),
    drafted && !P && make("p", make("b", "As much is cut off as is missing: "), "p and q both add up to 100\u00a0%, and what both say "
      + "is in each. So the pieces that are cut off fill the gaps exactly."),
    drafted && rule === "coupled" && make("p.soft", "This is how the token rule decides; here the noise does."),
    drafted && rule === "token" && drawsPanel(rows, element, counts));
}

// ---------------------------------------------------------------- a thousand draws

const N_DRAWS = 1000, DRAW_SECONDS = 8;
let drawing = null;

// The index that a mass picks out of those of the rows, which need not sum to 1.
function pick(masses) {
  let left = Math.random() * sum(masses);
  const found = masses.findIndex(mass => (left -= mass) < 0);
  return found < 0 ? masses.findLastIndex(mass => mass > 0) : found;
}

// Guess from q, accept with what p and q share, else replace from p’s excess: the rule itself, again
// and again. Counts fill up to p.
function drawsPanel(rows, svg, {accepted, residual, most}) {
  const says = make("p.soft", {id: "drawn"}, "Guess from q, then keep the guess or replace it, again and again: what comes out?");
  const name = row => row.id === null ? "another word" : quoted(row.id);
  const counts = rows.map(() => ({accepted: 0, residual: 0}));
  let n = 0, last = "";
  const drawOne = () => {
    const guess = pick(rows.map(({q}) => q)), {q, both} = rows[guess];
    if (Math.random() * q < both) {
      counts[guess].accepted++;
      last = `Last: ${name(rows[guess])} guessed and accepted.`;
    } else {
      const instead = pick(rows.map(({over}) => over));
      counts[instead].residual++;
      last = `Last: ${name(rows[guess])} guessed and rejected, ${name(rows[instead])} in its place.`;
    }
    n++;
  };
  const show = () => {
    counts.forEach((count, i) => {
      const [own, other] = [count.accepted, count.residual].map(count => count / N_DRAWS / most);
      accepted[i].setAttribute("width", share(own));
      residual[i].setAttribute("x", share(own));
      residual[i].setAttribute("width", share(other));
    });
    const replaced = sum(counts.map(({residual}) => residual));
    const gap = Math.max(...rows.map(({p}, i) => Math.abs(p - (counts[i].accepted + counts[i].residual) / n)));
    put("drawn", make("b", plural(n, "draw")), `: ${n - replaced} `, make("span.mark.draft", "accepted"),
      `, ${replaced} `, make("span.mark.correction", "replaced"), ". ", n < N_DRAWS ? last
        : make("b", `Every word is close to p, at most ${percent(gap)} of the draws off: a thousand are few; the more, the closer.`));
  };
  const start = make("button.primary", {type: "button", id: "draws", click: () => {
    cancelAnimationFrame(drawing);
    svg.classList.add("drawing");
    for (const count of counts) count.accepted = count.residual = 0;
    n = 0;
    const begin = performance.now();
    const tick = now => {
      const part = still.matches ? 1 : (now - begin) / 1e3 / DRAW_SECONDS; // slow at first
      const due = clamp(Math.ceil(N_DRAWS * part ** 3), 1, N_DRAWS);
      if (n < due) { while (n < due) drawOne(); show(); }
      if (n < N_DRAWS && svg.isConnected) drawing = requestAnimationFrame(tick);
      else announce($("drawn").textContent);
    };
    tick(begin);
  }}, "Draw a thousand times");
  return make("div.row.draws", start, says);
}

$("to-draws").addEventListener("click", () => {
  $("draws")?.click();
  $("draws")?.focus({preventScroll: true});
  $("microscope").scrollIntoView();
});

// ---------------------------------------------------------------- the coin

// A slider on the bar of min(1, p/q): dragging it says what would have happened.
function coinSlider(item) {
  const ratio = Math.min(1, item.ratio), mark = make("span.u");
  const would = make("p.soft", {id: "would", "aria-live": "polite"},
    "The roll for this guess. Drag it, or use the arrow keys: what would have happened?");
  const show = u => {
    mark.textContent = "roll " + number(u);
    Object.assign(mark.style, {left: `clamp(2.3rem, ${share(u)}, 100% - 2.3rem)`});
  };
  const say = u => number(u) + (u < ratio ? ", accepted" : ", rejected");
  const coin = slider({id: "coin", min: 0, max: .999, step: .001,
    "aria-label": `The roll u; accepted below ${number(ratio)}`}, item.u, say, u => {
    show(u);
    const same = u < ratio === (item.kind === "draft");
    put("would", make("b", u < ratio ? "Below p/q: accepted. " : "Not below p/q: rejected. "), same ? "The text stays as it is."
      : u < ratio ? "The next guess would be examined." : "A replacement would be drawn from the red area.");
  });
  show(item.u);
  const limit = make("span.r", {style: {left: `clamp(4.2rem, ${share(ratio)}, 100% - 4.2rem)`}},
    `stays below p/q = ${number(ratio)}`);
  return [make("div.coin", make("i", {style: width(ratio)}), coin, mark, limit), would];
}

function select(item) {
  selected = item;
  for (const element of $("text").querySelectorAll("button")) {
    element.tabIndex = element.item.n === item.n ? 0 : -1; // one stop of the tab key
    element.setAttribute("aria-pressed", String(element.item.n === item.n));
  }
  $("h-panel").textContent = `Decision ${item.n + 1} of ${items.length}`;
  put("detail",
    make("div.row", make("p.word", listed(item.id)), make("span.verdict." + item.kind, NAMES[item.kind])),
    make("p", {id: "because"}, explain(item)));
  showDistributions(item);
  put("coin-stage", hasCoin(item) && coinSlider(item));
  $("before").disabled = item.n === 0;
  $("after").disabled = item.n === items.length - 1;
}

function stepItem(step) {
  select(items[selected.n + step]);
  announce(`${spoken(selected.id)}, ${NAMES[selected.kind]}. ${$("because").textContent}`);
}

$("before").addEventListener("click", () => stepItem(-1));
$("after").addEventListener("click", () => stepItem(1));
$("text").addEventListener("keydown", event => {
  const to = {ArrowRight: selected.n + 1, ArrowLeft: selected.n - 1, Home: 0, End: items.length - 1}[event.key];
  if (!items[to]) return;
  event.preventDefault();
  select(items[to]);
  $("text").querySelector("[tabindex='0']").focus();
});

function showMicroscope(run) {
  state.run = run;
  items = itemsOf(run);
  showText(run);
  select(tellingItem(items) || items[0]);
}
