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

// ---------------------------------------------------------------- one decision

function explain({kind, round, i, p, q, ratio, u, P}) {
  const odds = {
    token: kind === "rejected" || ratio < .9995 ? `The small model says it in ${percent(q)} of all cases, the large one only in ${percent(p)}: it stays in `
        + `${percent(ratio)} of them, as ${percent(ratio)} of ${percent(q)} are ${percent(p)}. The dice, from 0 to 100\u00a0%, said ${percent(u)}. `
      : `The large model says it at least as often (${percent(p)}) as the small one (${percent(q)}): `
        + "it stays, whatever the dice say. ",
    block: `The guesses up to this one stay together in ${percent(P)} of all cases. `,
    coupled: "Both models choose under the same noise here. ",
  }[ruleOf(state.run)];
  const isCoupled = state.run.settings.coupled, here = `${quoted(round.tokens[i])}, which the large model `
    + (isCoupled ? "chooses under the same noise" : "says more often than the small one");
  return {
    draft: odds + "Accepted.",
    rejected: `${odds}Rejected. In its place comes ${here}.`,
    correction: `In place of the rejected guess comes ${here}${isCoupled ? "" : ": drawn from the missing pieces, a wide one more often"}.`,
    bonus: "All guesses were accepted: behind the last one, the same pass gave the large model’s own next word, for free.",
    target: "Nothing was guessed: drawn as by the large model alone.",
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
    both: drafted ? left(round.overlap[i], "both") : 0};
  if (others.p + others.q > .0005) rows.push(others);
  for (const row of rows) row.over = row.p - row.both;
  const last = row => Number(row.id === null);
  return rows.sort((a, b) => last(a) - last(b) || (a.p - a.q) - (b.p - b.q));
}

// The rule, with the numbers of the word that is cut off most and of the one that lacks most.
function showRule(rows, isToken) {
  const most = size => isToken && rows.filter(row => row.id !== null && size(row) > .0005).sort((a, b) => size(b) - size(a))[0];
  const kept = most(({over}) => over), cut = most(({q, both}) => q - both), number = x => (100 * x).toFixed(1);
  const says = row => row && make("b", `${quoted(row.id)}: small model ${percent(row.q)}, large model ${percent(row.p)}. `);
  put("rule",
    make("li", swatch("accepted"), says(kept), "A guess that the large model says at least as often ", make("b", "always stays"), "."),
    make("li", swatch("rejected"), says(cut), cut ? ["So ", make("b", `a die keeps ${quoted(cut.id)} ${plural(stayIn(cut.p / cut.q), "time")} in 100`), ` (${number(cut.p)} of every ${number(cut.q)}), else it is cut off.`]
      : "One that it says less often stays in that part of all cases; else it is cut off."),
    make("li", swatch("residual"), "Then a replacement ", make("b", "fills exactly what is lacking"), ". So each word comes up ",
      make("b", "as often as from the large model alone"), "."));
}

// The picture of the rule: p and q as two areas over the same tokens, a row each. What they share
// is accepted, q’s excess is rejected, and p’s excess is filled from the residual.
function areas(rows, drafted) {
  const n = rows.length, most = 1.08 * Math.max(...rows.flatMap(({p, q}) => [p, q])); // draws vary
  const area = (kind, i, from, to) => to > from && make("svg:rect." + kind, {x: share(from / most),
    width: share((to - from) / most), y: share((i + .1) / n), height: share(.8 / n)});
  const outline = name => make("svg:path." + name,
    {d: rows.map((row, i) => `M0 ${i + .1}H${row[name] / most}V${i + .9}H0`).join("")});
  const hatch = {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse"};
  const drawn = kind => rows.map((_, i) =>
    make("svg:rect.drawn." + kind, {y: share((i + .2) / n), height: share(.6 / n), width: 0}));
  const counts = {accepted: drawn("accepted"), residual: drawn("residual"), most};
  const element = make("svg:svg.areas", {role: "img", "aria-label": "p and q as areas over the same tokens"},
    make("svg:defs", make("svg:pattern", hatch, make("svg:path.hatch", {d: "M-1 7L7 -1"}))),
    rows.map(({p, q, both}, i) => !drafted ? area("sampled", i, 0, p) : [
      area("accepted", i, 0, both), area("rejected", i, both, q), area("residual", i, both, p)]),
    counts.accepted, counts.residual,
    make("svg:svg", {viewBox: `0 0 1 ${n}`, preserveAspectRatio: "none"},
      drafted && outline("q"), outline("p")));
  return {element, counts};
}

function showDistributions({round, i, id, kind}) {
  const rows = rowsAt(round, i), drafted = rows[0].q !== null, P = round.support && i > 0;
  const {element, counts} = areas(rows, drafted), rule = ruleOf(state.run);
  const body = rows.map((row, n) => make(row.id === id ? "tr.chosen" : "tr",
    make("th", {scope: "row"}, row.id === null ? "all others" : listed(row.id)),
    n === 0 && make("td.picture", {rowspan: rows.length}, element),
    make("td.number", percent(row.p)), drafted && make("td.number", percent(row.q))));
  const head = (kind, ...text) => make(kind, {scope: "col"}, text);
  // all pieces that are cut off, end to end, and all that are missing
  const lack = 1 - round.overlap[i], scale = Math.max(counts.most, 1.3 * lack), darts = make("span.darts", {style: width(lack / scale)});
  const foot = (says, kind, size, ...extra) => make("tr", make("th", {scope: "row"}, says), make("td", make("div.pieces",
    rows.filter(row => size(row) > 0).map(row => make("i." + kind, {style: width(size(row) / scale)},
      size(row) > .15 * lack && make("span", row.id === null ? "others" : listed(row.id)))), make("b", percent(lack)), extra)));
  showRule(rows, drafted && rule === "token");
  put("more",
    make("table", {id: "likely"}, make("thead", make("tr", head("th", "next word"),
      head("th", make("span.line-p"), `the large model says it${P ? ", × P" : ""}`, drafted && [make("span.line-q"), "the small one"]),
      head("th.number", P ? "P × large" : "large"), drafted && head("th.number", "small"))), make("tbody", body),
      drafted && !P && make("tfoot", foot("cut off", "rejected", ({q, both}) => q - both),
        foot("lacking", "residual", ({over}) => over, darts))),
    drafted && !P && make("p", make("b", "As much is cut off as is lacking, "), "since the odds of each model add up to 100\u00a0%. "
      + "For each guess that is cut off, a dart falls somewhere on the lacking pieces: what it hits is the replacement. "
      + (rows.at(-1).id === null && Math.min(rows.at(-1).over, rows.at(-1).q - rows.at(-1).both) > .0005 ? "Of all others, the small model says some too often, some too rarely." : "")),
    drafted && rule !== "token" && make("p.soft", "This is how the token rule decides; here " + (rule === "coupled" ? "the noise does."
      : `guesses are judged together${P ? ": P is the chance that those before this one stay" : ""}.`)),
    drafted && rule === "token" && drawsPanel(rows, element, counts, darts));
}

// ---------------------------------------------------------------- a hundred thousand draws

const N_DRAWS = 100000, DRAW_SECONDS = 2, SLIDE_SECONDS = 1.4, SLOW_SECONDS = 1;
let drawing = null; // the draws that are under way
const after = seconds => new Promise(done => setTimeout(done, 1e3 * seconds));

// The index of the mass that `at`, from 0 to 1, hits where all of them lie end to end.
function pick(masses, at) {
  let left = at * sum(masses);
  const found = masses.findIndex(mass => (left -= mass) < 0);
  return found < 0 ? masses.findLastIndex(mass => mass > 0) : found;
}

// One draw, the rule itself: a guess from q falls somewhere on its bar. In what p and q share, it
// stays; beyond, it is cut off, and a dart at `at` of what is lacking hits the word that comes instead.
function drawOne(rows) {
  const guess = pick(rows.map(({q}) => q), Math.random()), place = Math.random() * rows[guess].q;
  if (place < rows[guess].both) return {guess, place};
  const at = Math.random();
  return {guess, place, at, instead: pick(rows.map(({over}) => over), at)};
}

// Two draws that stay and two that are cut off, if there are such, in steps: [words, row, place, kind, at].
function* slowDraws(rows) {
  const name = i => make("b", rows[i].id === null ? "another word" : quoted(rows[i].id));
  const some = range(1000).map(() => drawOne(rows)), stay = some.filter(({at}) => at === undefined);
  const cut = some.filter(({at}) => at !== undefined);
  for (const {guess, place, at, instead} of [stay[0], cut[0], stay[1], cut[1]].filter(Boolean)) {
    yield [["For example: the small model guesses ", name(guess), "; the die says where on its bar …"], guess, place, "guess"];
    const isCut = at !== undefined;
    yield [[name(guess), isCut ? " is cut off: the die fell where the small model says it too often …"
      : [" ", make("span.mark.draft", "stays"), ": up to here, the large model says it as often."]], guess, place, isCut ? "rejected" : "accepted"];
    if (isCut) yield [["… and the dart hits ", name(instead), ": its ", make("span.mark.correction", "replacement"), "."],
      instead, rows[instead].p - Math.random() * rows[instead].over, "residual", at];
  }
}

// The pieces leave the bars for the rows where they lie end to end.
function slidePieces(svg) {
  for (const kind of ["rejected", "residual"]) {
    const from = svg.querySelectorAll(`rect.${kind}:not(.drawn)`);
    $("likely").querySelectorAll(`.pieces > .${kind}`).forEach((piece, i) => {
      const [a, b] = [from[i], piece].map(element => element.getBoundingClientRect());
      piece.animate({transform: [`translate(${a.x - b.x}px, ${a.y - b.y}px)`, "none"]}, {duration: 1e3 * SLIDE_SECONDS, easing: "ease-in-out"});
    });
  }
}

// Slow draws, then fast ones, from when they are first seen on: counts fill up to p.
function drawsPanel(rows, svg, {accepted, residual, most}, darts) {
  const counts = rows.map(() => ({accepted: 0, residual: 0})), dots = make("svg:g");
  const dart = (kind, at) => darts.append(make("i" + kind, {style: {left: share(at)}}));
  const show = n => {
    counts.forEach((count, i) => {
      const [own, other] = [count.accepted, count.residual].map(count => count / N_DRAWS / most);
      accepted[i].setAttribute("width", share(own));
      residual[i].setAttribute("x", share(own));
      residual[i].setAttribute("width", share(other));
    });
    const replaced = sum(counts.map(({residual}) => residual)), whole = n => n.toLocaleString("en");
    const gap = Math.max(...rows.map(({p}, i) => Math.abs(p - (counts[i].accepted + counts[i].residual) / n)));
    if (n) put("drawn", make("b", `${whole(n)} draw${n === 1 ? "" : "s"}`), `: ${whole(n - replaced)} `, make("span.mark.draft", "stayed"),
      `, ${whole(replaced)} `, make("span.mark.correction", "replaced"), ". ", n === N_DRAWS
        && make("b", `Each word came up as often as the large model says it; largest difference: ${(100 * gap).toFixed(2)} percentage points.`));
  };
  async function draw(tell) {
    const mine = drawing = {}, isOver = () => drawing !== mine || !svg.isConnected;
    for (const count of counts) count.accepted = count.residual = 0;
    show(0);
    svg.classList.remove("drawing");
    const clear = () => { dots.replaceChildren(); darts.replaceChildren(); };
    clear();
    if (!still.matches) {
      slidePieces(svg);
      await after(SLIDE_SECONDS);
      for (const [says, row, place, kind, at] of slowDraws(rows)) {
        if (isOver()) return;
        if (kind === "guess") clear();
        dots.append(make("svg:svg", {x: share(place / most), y: share((row + .5) / rows.length)},
          make("svg:circle." + kind, {r: 8}), kind === "guess" && make("svg:text", {x: 14, y: 5}, "one guess")));
        if (kind === "residual") dart(".one", at);
        put("drawn", says);
        await after(SLOW_SECONDS);
      }
      if (isOver()) return;
      clear();
    }
    svg.classList.add("drawing");
    const begin = performance.now();
    for (let n = 0; n < N_DRAWS && !isOver();) {
      const part = still.matches ? 1 : (performance.now() - begin) / 1e3 / DRAW_SECONDS; // slow at first
      for (const due = clamp(Math.ceil(N_DRAWS * part ** 4), 1, N_DRAWS); n < due; n++) {
        const {guess, at, instead} = drawOne(rows);
        if (at === undefined) counts[guess].accepted++;
        else counts[instead].residual++;
        if (at !== undefined && darts.children.length < 300) dart("", at);
      }
      show(n);
      if (!still.matches) await new Promise(requestAnimationFrame);
    }
    if (!isOver()) tell($("drawn").textContent);
  }
  svg.append(dots);
  drawing = null;
  new IntersectionObserver(([{isIntersecting}]) => {
    if (isIntersecting && !drawing) draw(() => {});
  }, {threshold: 1}).observe(darts);
  return make("div.row.draws", button("Draw again", "draws", () => draw(announce)),
    make("p.soft", {id: "drawn"}, "The small model guesses, and the guess stays or is replaced, again and again: what comes out?"));
}

// ---------------------------------------------------------------- which decision

function select(item) {
  selected = item;
  for (const element of $("text").querySelectorAll("button")) {
    element.tabIndex = element.item.n === item.n ? 0 : -1; // one stop of the tab key
    element.setAttribute("aria-pressed", String(element.item.n === item.n));
  }
  $("h-panel").textContent = `Decision ${item.n + 1} of ${items.length}: choose another in the text`;
  put("detail", make("span.soft", tailOf(state.run, item.r, item.i)), " ", make("b", "?"));
  put("because", make("b", listed(item.id)), " ", make("span.verdict." + item.kind, NAMES[item.kind]), " ", explain(item));
  showDistributions(item);
}

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
  if (run.settings.coupled) put("odds", "Words drawn by chance, here under the same noise: the same text, too.");
}
