// ---------------------------------------------------------------- the microscope
// One item for each decision and each token of the target: {n, round, r, i, id, kind, shown}, and of
// a draft its numbers {p, q, ratio, u, P}. i is its place in the r-th round; shown is null where the
// token is not in the text, u where no coin was tossed for it alone, P where no block was verified.
// Where the words are the likeliest, p, q and u are those of words drawn by chance.

let items = [], selected = null;

const kindOf = (round, i) =>
  i < round.accepted ? "draft" : i < round.examined ? "rejected" : "unexamined";

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

// A rejected guess stands above the token that took its place; the ground of each is as dark as the
// large model was sure.
function showText(run) {
  const sure = surenessOf(run), text = items.filter(item => item.shown !== null);
  put("text", make("span.soft", plainly(run.prompt)), text.map((item, i) => {
    const above = items[item.n - 1], own = itemButton(item);
    own.style.setProperty("--sure", share(sure[i]));
    return [/^ ./.test(item.shown) && " ",
      above?.kind === "rejected" ? make("span.over", itemButton(above), own) : own,
      /\n$/.test(item.shown) && !/^\n/.test(text[i + 1]?.shown ?? "") && "\n"];
  }));
  put("legend", make("li", [0, .33, .67, 1].map(p => make("span.swatch.sure", {style: {"--sure": share(p)}})), "the darker, the surer the large model"),
    ["rejected", "correction", "bonus"].map(kind => make("li", make("span.token." + kind, NAMES[kind]))));
}

// ---------------------------------------------------------------- why guesses are right

const SURE = .5;

function showEasy(run) {
  const [large, small] = run.parameters, n = draftedIn(run) && mostWords(run) - 1;
  const examined = items.filter(({kind}) => kind === "draft" || kind === "rejected");
  const rate = list => `${list.filter(({kind}) => kind === "draft").length} of ${list.length}`;
  const [sure, unsure] = [true, false].map(isSure => rate(examined.filter(({round, i}) => round.likely[i][0][1] > SURE === isSure)));
  put("h-easy", `Why is ${small < large ? `a model ${rounded(large / small, 2)} times smaller` : "a guess"} so often right? Many words are easy.`);
  put("surely", n > 0 && [`Where the large model was more than ${100 * SURE}\u00a0% sure of the next word, `, make("b", sure), " guesses were right; elsewhere ", make("b", unsure), ". Choose a word to see its odds below."]);
  const a = acceptedIn(run) / (examinedIn(run) || 1), brings = sum(range(n + 1).map(i => a ** i));
  put("rate", n > 0 && [`${plural(draftedIn(run), "word")} were guessed. Up to the first wrong one of each round, ${examinedIn(run)} were looked at, `,
    make("b", `${acceptedIn(run)} of these right: a = ${a.toFixed(2)}`), `. With K = ${n} guesses, a delivery then brings 1 + a + … + a`, make("sup", "K"),
    " = (1 − a", make("sup", "K+1"), `) / (1 − a) = ${brings.toFixed(2)} words on average; here it was ${tokensOf(run).length} / ${run.rounds.length} = ${(tokensOf(run).length / run.rounds.length).toFixed(2)}.`]);
}

// The rule of a run; that of the likeliest words is shown as if they were drawn by chance.
const ruleOf = run => !isByChance(run) ? "token" : run.settings.coupled ? "coupled" : run.settings.verification || "token";

// ---------------------------------------------------------------- one decision

// What became of it, in the run that is shown.
function explain({kind, round, i, id, ratio, u, P}) {
  const own = i < round.tokens.length && quoted(round.tokens[i]), guess = quoted(id), chance = isByChance(state.base);
  const rule = ruleOf(state.base), die = `The die fell at ${Number(u).toFixed(2)}, `;
  const odds = !chance ? kind === "draft" ? `The large model’s likeliest word is ${guess}, too: the guess stays.` : `The large model’s likeliest word is ${own}, not ${guess}: the guess is replaced.`
    : {token: die + (kind === "draft" ? "below" : "not below") + ` ${Math.min(1, ratio).toFixed(2)}: the guess ${kind === "draft" ? "stays" : "is replaced"}.`,
      block: `The guesses up to this one stay together in ${percent(P)} of all cases.`,
      coupled: "Both models choose under the same noise here."}[rule];
  return {
    draft: odds,
    rejected: odds + (chance ? ` In its place comes ${own}.` : ""),
    correction: `It came in place of a rejected guess${!chance ? ": the large model’s likeliest word" : rule === "token" ? ", drawn from what the small model says too seldom" : ""}.`,
    bonus: "All guesses were right: behind the last one, the same delivery brought the large model’s own next word, for free.",
    target: "Nothing was guessed: written as by the large model alone.",
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

// The rule in three sentences, with the numbers of a guess; the die is a point on its bar.
function showRule({p, q, u, id, kind}) {
  const isGuess = ruleOf(state.base) === "token" && (kind === "draft" || kind === "rejected"), ratio = Math.min(1, p / q);
  const name = isGuess ? quoted(id) : "x", stays = u < ratio;
  put("rule",
    make("li", "The small model draws a guess from its odds q, the grey outline. ", isGuess && make("b", `q(${name}) = ${percent(q)}, p(${name}) = ${percent(p)}.`), !isGuess && "The large model’s odds are p, the purple one."),
    make("li", "The guess stays with probability ", make("b", "min(1, p / q)", isGuess && ` = ${ratio.toFixed(2)}`), ": always where the large model says it at least as often. ",
      isGuess && u !== null && [make("span.die", {role: "img", "aria-label": `a bar from 0 to 1, green up to ${ratio.toFixed(2)}; the die is at ${u.toFixed(2)}`},
        make("i.accepted", {style: width(ratio)}), make("i.rejected", {style: width(1 - ratio)}), make("b", {style: {left: share(u)}})),
      `The die, anywhere from 0 to 1, fell at ${u.toFixed(2)}, ${stays ? "below" : "not below"} ${ratio.toFixed(2)}: ${isByChance(state.base) ? "" : "by chance, "}${stays ? "the guess stays" : "it is replaced"}.`]),
    make("li", "Else a replacement is drawn from ", make("b", "norm(max(0, p − q))"), ", what the small model says too seldom. So each word comes up as often as from the large model alone."));
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
  const {element, counts} = areas(rows, drafted), rule = ruleOf(state.base);
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
  put("more",
    make("table", {id: "likely"}, make("thead", make("tr", head("th", "next word"),
      head("th", make("span.line-p"), `p, the large model’s odds${P ? ", × P" : ""}`, drafted && [make("span.line-q"), "q, the small one’s"]),
      head("th.number", P ? "P × p" : "p"), drafted && head("th.number", "q"))), make("tbody", body),
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

// The end of the text before the i-th place of the r-th round.
function tailOf(run, r, i) {
  const shown = [...run.rounds.slice(0, r).flatMap(({shown}) => shown), ...run.rounds[r].shown.slice(0, i)];
  const written = plainly(run.prompt + shown.join("")).replace(/\n/g, "⏎");
  return written.length > 50 ? "… " + written.slice(-45).replace(/^\S*\s/, "") : written;
}

function select(item) {
  const run = state.base, {round, i, kind} = item;
  selected = item;
  for (const element of $("text").querySelectorAll("button")) {
    element.tabIndex = element.item.n === item.n ? 0 : -1; // one stop of the tab key
    element.setAttribute("aria-pressed", String(element.item.n === item.n));
  }
  put("h-microscope", kind === "rejected" ? `Why was ${quoted(item.id)} rejected?` : `How ${quoted(item.id)} was chosen`);
  put("detail", make("span.soft", tailOf(run, item.r, i)), " ", kind === "rejected"
    ? [make("s", bare(words[item.id])), " ", i < round.tokens.length && make("span.mark." + round.sources[i], bare(words[round.tokens[i]]))]
    : make("span.mark." + kind, bare(words[item.id])));
  put("because", make("span.verdict." + kind, NAMES[kind]), " ", explain(item));
  put("odds", !isByChance(run) ? [make("b", "Now by chance. "), `So far every word was the likeliest, and the text the same, word for word. Chatbots draw words by chance; so let both models draw here (temperature ${run.chance}). Then the text is another one, and a rule keeps the odds of each word:`]
    : run.settings.coupled ? "Words are drawn by chance, here under the same noise: the same text, too."
    : `Words are drawn by chance (temperature ${run.settings.temperature}): another text, the same odds for each word. The rule:`);
  showRule(item);
  showDistributions(item);
}

$("text").addEventListener("keydown", event => {
  const to = {ArrowRight: selected.n + 1, ArrowLeft: selected.n - 1, Home: 0, End: items.length - 1}[event.key];
  if (!items[to]) return;
  event.preventDefault();
  select(items[to]);
  $("text").querySelector("[tabindex='0']").focus();
});

// It opens on the first rejected word of the race.
function showMicroscope(run) {
  items = itemsOf(run);
  showText(run);
  showEasy(run);
  select(items.find(({kind}) => kind === "rejected") || items[0]);
}
