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

// Below each guess are two bars, its q and its p. A rejected one stands above what took its place.
function showText(run) {
  const text = items.filter(item => item.shown !== null);
  put("text", make("span.soft", plainly(run.prompt)), text.map((item, i) => {
    const above = items[item.n - 1], isBelow = above?.kind === "rejected", {p, q} = isBelow ? above : item;
    return [/^ ./.test(item.shown) && " ",
      make(q === undefined ? "span" : "span.cell", {style: {"--p-of": p ?? 0, "--q-of": q ?? 0}}, isBelow && itemButton(above), itemButton(item)),
      /\n$/.test(item.shown) && !/^\n/.test(text[i + 1]?.shown ?? "") && "\n"];
  }));
  put("legend", make("li", make("span.swatch", {style: {"--ground": "var(--q)"}}), "how likely the small model found it"),
    make("li", make("span.swatch", {style: {"--ground": "var(--p)"}}), "the large one"),
    ["draft", "rejected", "correction", "bonus"].map(kind => make("li", make("span.token." + kind, NAMES[kind]))));
}

// ---------------------------------------------------------------- why guesses are right

function showEasy(run) {
  const [large, small] = run.parameters, n = draftedIn(run) && mostWords(run) - 1;
  const shared = run.rounds.flatMap(({overlap, examined, support}) => support ? [] : overlap.slice(0, examined));
  const a = acceptedIn(run) / (examinedIn(run) || 1), brings = sum(range(n + 1).map(i => a ** i)), isOften = a > .5;
  const who = small < large ? `a model ${rounded(large / small, 2)} times smaller` : "a guess";
  put("h-easy", isOften ? `Why is ${who} so often right?` : `How often is ${who} right?`);
  put("surely", n > 0 && [isOurs(run) && "It was trained to imitate the large one. ", small && isOften ? "It mostly finds the same words likely: compare" : "Compare", " the two bars below each guess. ",
    shared.length > 0 && ["On average the two models share ", make("b", percent(sum(shared) / shared.length)), " of their odds. "], "Choose a word to see them."]);
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
  const rule = ruleOf(state.base), stays = kind === "draft", ends = `the guess ${stays ? "stays" : "is replaced"}.`;
  const odds = !chance ? `The large model’s likeliest word is ${stays ? `${guess}, too` : `${own}, not ${guess}`}: ${ends}`
    : {token: `The random number was ${Number(u).toFixed(2)}, ${stays ? "below" : "not below"} ${Math.min(1, ratio).toFixed(2)}: ${ends}`,
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

// A draw of a guess by the rule, as the picture shows it: {u, guess, place, instead}, two rows and a place
// on the bar of the first; null for what is no such guess. Words drawn by chance have their own u; of
// the likeliest words, a u is taken that keeps what was kept, and rejects what was rejected.
function exampleOf({round, i, id, kind, ratio, u, q}, rows) {
  if (ruleOf(state.base) !== "token" || kind !== "draft" && kind !== "rejected") return null;
  const kept = Math.min(1, ratio), own = isByChance(state.base) ? u : kind === "draft" || kept === 1 ? kept / 2 : (1 + kept) / 2;
  const most = rows.reduce((best, row, n) => row.over > rows[best].over ? n : best, 0);
  const taken = rows.findIndex(row => row.id === round.tokens[i] && row.over > 0);
  return {u: own, guess: rows.findIndex(row => row.id === id), place: own * q, instead: own < kept ? undefined : taken < 0 ? most : taken};
}

// The rule in three steps, with the numbers of a guess.
function showRule({p, q, id}, rows, example) {
  const name = example ? quoted(id) : "x", kept = Math.min(1, p / q), isCut = example && example.instead !== undefined;
  const lack = percent(sum(rows.map(({over}) => over)));
  put("rule", rows[0].q !== null && [
    make("li", make("b", "Guess. "), "The small model draws a word by its odds q. ", example && ["It says ", make("b", `${name} in ${percent(q)}`), ", the large model ", make("b", `in p = ${percent(p)}`), p < q ? ": too often." : ": not too often."]),
    make("li", make("b", "Keep or cut off. "), "It stays with probability ", make("b", "min(1, p / q)", example && ` = ${p < q ? `${(100 * p).toFixed(1)} / ${(100 * q).toFixed(1)} = ${kept.toFixed(2)}` : "1, always"}`), ", ", make("span.key.accepted", "the part that both models say"), ". ",
      example && kept < 1 && `A random number from 0 to 1 decides: ${isByChance(state.base) ? "it was" : "say,"} ${example.u.toFixed(2)}, ${isCut ? "not below, it is cut off" : "below, it stays"}.`),
    make("li", make("b", "Refill. "), "For what is cut off, another word is drawn from ", make("b", "norm(max(0, p − q))"), ": ", make("span.key.residual", "what the small model says too seldom"), ", scaled to add up to 1 (norm).", isCut && rows[example.instead].id !== null && [" Here it is ", make("b", quoted(rows[example.instead].id)), "."])]);
  put("exact", rows[0].q !== null && ruleOf(state.base) === "token" && [make("b", "Why it comes out exactly as p: "), `the odds of each model add up to 100\u00a0%, so as much is cut off, ${lack}, as is lacking. One goes into the other: `, make("b", "min(p, q) + max(0, p − q) = p"), ", for every word, however bad the guesses."]);
}

// ---------------------------------------------------------------- the picture of the rule

// Of each row two bars over each other, from y to y + height in the row. The upper is q: what p has, too,
// is kept, and the rest cut off. The lower is p: what was kept, and what is refilled.
const UPPER = [.08, .36], LOWER = [.5, .42];
const PIECES = {accepted: "kept", rejected: "cut off", residual: "refilled"};

// A piece of a bar in the i-th of n rows, from one share of the width to another.
const piece = (kind, n, i, [y, height], from = 0, to = 0) => make("svg:rect." + kind,
  {x: share(from), width: share(to - from), y: share((i + y) / n), height: share(height / n)});

// The bars of the rows; `most` is as wide as the picture. parts: more, in front of them.
function bars(rows, most, label, ...parts) {
  const n = rows.length, drafted = rows[0].q !== null;
  const outline = ([y, height], name) => make("svg:path." + name,
    {d: rows.map((row, i) => `M0 ${i + y}H${row[name] / most}V${i + y + height}H0`).join("")});
  const pieces = rows.flatMap(({p, q, both}, i) => drafted ? [["accepted", i, UPPER, 0, both], ["rejected", i, UPPER, both, q],
    ["accepted", i, LOWER, 0, both], ["residual", i, LOWER, both, p]] : [["sampled", i, LOWER, 0, p]]).filter(([, , , from, to]) => to > from);
  return make("svg:svg.bars", {role: "img", "aria-label": label},
    pieces.map(([kind, i, line, from, to]) => piece(kind, n, i, line, from / most, to / most)),
    parts, pieces.filter(([, , , from, to]) => drafted && to - from > .25 * most).map(([kind, i, [y, height], from]) =>
      make("svg:text", {x: share(from / most), dx: 6, y: share((i + y + height / 2) / n), "dominant-baseline": "central"}, PIECES[kind])),
    make("svg:svg", {viewBox: `0 0 1 ${n}`, preserveAspectRatio: "none"}, drafted && outline(UPPER, "q"), outline(LOWER, "p")));
}

function showDistributions({round, i, id}, rows, example) {
  const drafted = rows[0].q !== null, P = round.support && i > 0, rule = ruleOf(state.base), isWhole = drafted && !P;
  const most = 1.08 * Math.max(...rows.flatMap(({p, q}) => [p, q])); // draws vary
  const drawn = kind => rows.map((_, i) => piece("drawn." + kind, rows.length, i, [LOWER[0] + .08, LOWER[1] - .16]));
  const counts = {accepted: drawn("accepted"), residual: drawn("residual"), most}, dots = make("svg:g");
  const picture = bars(rows, most, "of each word, how often it is guessed, and how often it is written", counts.accepted, counts.residual);
  picture.append(dots);
  const head = (kind, ...text) => make(kind, {scope: "col"}, text), number = (kind, x) => make("td.number" + kind, percent(x));
  const numbers = ({p, q, both, over}) => [drafted && number("", q), isWhole && [number(".middle", both), number(".middle", over)], number("", p)];
  const whole = {id: null, p: 1, q: 1, both: sum(rows.map(({both}) => both)), over: sum(rows.map(({over}) => over))};
  put("more", make("table", {id: "likely"},
    make("thead", make("tr", head("th", "next word"), head("th", drafted && [make("span.line-q"), "above: guessed "], make("span.line-p"), drafted ? "below: written" : "the large model’s odds"),
      drafted && head("th.number", "guessed\nq"), isWhole && [head("th.number.middle", "kept\nmin(p, q)"), head("th.number.middle", "+ refilled\nmax(0, p − q)")], head("th.number", P ? "P × p" : isWhole ? "= written\np" : "p"))),
    make("tbody", rows.map((row, n) => make(row.id === id ? "tr.chosen" : "tr", make("th", {scope: "row"}, row.id === null ? "all others" : listed(row.id)),
      n === 0 && make("td.picture", {rowspan: rows.length}, picture), numbers(row)))),
    isWhole && make("tfoot", make("tr", make("th", {scope: "row"}, "all"), make("td.picture", bars([whole], 1, "all words together: as much is cut off as is refilled")), numbers(whole)))),
    drafted && rule !== "token" && make("p.soft", "This is how the token rule decides; here " + (rule === "coupled" ? "the noise does."
      : `guesses are judged together${P ? ": P is the chance that those before this one stay" : ""}.`)),
    drafted && rule === "token" && drawsPanel(rows, picture, counts, dots, example));
}

// ---------------------------------------------------------------- a hundred thousand draws

const N_DRAWS = 100000, DRAW_SECONDS = 3, SLOW_SECONDS = 1.5;
let drawing = null; // the draws that are under way
const after = seconds => new Promise(done => setTimeout(done, 1e3 * seconds));

// The index of the mass that `at`, from 0 to 1, hits where all of them lie end to end.
function pick(masses, at) {
  let left = at * sum(masses);
  const found = masses.findIndex(mass => (left -= mass) < 0);
  return found < 0 ? masses.findLastIndex(mass => mass > 0) : found;
}

// One draw, the rule itself: a guess from q falls somewhere on its bar. In what p and q share, it
// stays; beyond, it is cut off, and another word is drawn from what is lacking.
function drawOne(rows) {
  const guess = pick(rows.map(({q}) => q), Math.random()), place = Math.random() * rows[guess].q;
  return {guess, place, instead: place < rows[guess].both ? undefined : pick(rows.map(({over}) => over), Math.random())};
}

// The example, if there is one, then a draw that stays and one that is cut off, in steps: [words, row, bar, place, kind].
function* slowDraws(rows, example, most = 3) {
  const name = i => make("b", rows[i].id === null ? "another word" : quoted(rows[i].id));
  const some = range(1000).map(() => drawOne(rows)), stays = ({instead}) => instead === undefined;
  for (const {guess, place, instead} of [example, some.find(stays), some.find(draw => !stays(draw))].filter(Boolean).slice(0, most)) {
    yield [["The small model guesses ", name(guess), " …"], guess, UPPER, place, "guess"];
    if (instead === undefined) yield [["… which the large model says as often: it ", make("span.mark.draft", "stays"), "."], guess, LOWER, place, "accepted"];
    else {
      yield [["… more often than the large model does: ", make("s", "cut off"), " …"], guess, UPPER, place, "rejected"];
      yield [["… and ", make("span.mark.correction", "refilled"), " where something is lacking: ", name(instead), " is written."],
        instead, LOWER, rows[instead].both + (.2 + .6 * Math.random()) * rows[instead].over, "residual"];
    }
  }
}

// Slow draws, then fast ones, from when they are first seen on: counts fill up to p.
function drawsPanel(rows, picture, {accepted, residual, most}, dots, example) {
  const counts = rows.map(() => ({accepted: 0, residual: 0}));
  const move = (dot, row, [y, height], place, kind) => {
    dot.setAttribute("class", kind);
    for (const [name, value] of [["cx", place / most], ["cy", (row + y + height / 2) / rows.length]]) dot.style.setProperty(name, share(value));
  };
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
    const mine = drawing = {}, isOver = () => drawing !== mine || !picture.isConnected;
    for (const count of counts) count.accepted = count.residual = 0;
    show(0);
    picture.classList.remove("drawing");
    dots.replaceChildren();
    for (const [says, ...place] of still.matches ? [] : slowDraws(rows, example)) {
      if (place.at(-1) === "guess") dots.replaceChildren(make("svg:circle", {r: 8}));
      move(dots.firstChild, ...place);
      put("drawn", says);
      await after(SLOW_SECONDS);
      if (isOver()) return;
    }
    dots.replaceChildren();
    picture.classList.add("drawing");
    const begin = performance.now();
    for (let n = 0; n < N_DRAWS && !isOver();) {
      const part = still.matches ? 1 : (performance.now() - begin) / 1e3 / DRAW_SECONDS; // slow at first
      for (const due = clamp(Math.ceil(N_DRAWS * part ** 4), 1, N_DRAWS); n < due; n++) {
        const {guess, instead} = drawOne(rows);
        if (instead === undefined) counts[guess].accepted++;
        else counts[instead].residual++;
      }
      show(n);
      if (!still.matches) await new Promise(requestAnimationFrame);
    }
    if (!isOver()) tell($("drawn").textContent);
  }
  drawing = null;
  for (const [, ...place] of example ? slowDraws(rows, example, 1) : []) if (place.at(-1) !== "guess") {
    dots.append(make("svg:circle", {r: 7}));
    move(dots.lastChild, ...place);
  }
  new IntersectionObserver(([{isIntersecting}]) => {
    if (isIntersecting && !drawing) draw(() => {});
  }, {threshold: .9}).observe(picture);
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
  const rows = rowsAt(round, i), example = exampleOf(item, rows);
  put("odds", rows[0].q === null ? "Nothing was guessed at this place. Drawn by chance, a word comes up by the large model’s own odds:" : !isByChance(run) ? [make("b", "Now by chance. "), `So far each word was the likeliest, and the text the same, word for word. Chatbots draw their words at random; so let both models draw here (temperature ${run.chance}). Would ${quoted(item.id)} have been written too often, or too seldom? Neither, by this rule:`]
    : run.settings.coupled ? "Words are drawn by chance, here under the same noise: the same text, too."
    : `Words are drawn by chance (temperature ${run.settings.temperature}): another text, the same odds for each word. The rule:`);
  showRule(item, rows, example);
  showDistributions(item, rows, example);
}

$("text").addEventListener("keydown", event => {
  const to = {ArrowRight: selected.n + 1, ArrowLeft: selected.n - 1, Home: 0, End: items.length - 1}[event.key];
  if (!items[to]) return;
  event.preventDefault();
  select(items[to]);
  $("text").querySelector("[tabindex='0']").focus();
});

// It opens on the rejected word of the race that the small model says most too often.
function showMicroscope(run) {
  items = itemsOf(run);
  showText(run);
  showEasy(run);
  const rejected = items.filter(({kind}) => kind === "rejected").sort((a, b) => a.p - a.q - (b.p - b.q));
  select(rejected[0] || items[0]);
}
