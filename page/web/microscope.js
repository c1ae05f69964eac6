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
  const label = `${spoken(item.id) || "empty"}, ${NAMES[item.kind]}, fetch ${item.r + 1}`;
  const element = make(`button.token.${item.kind}`, {type: "button", "aria-label": label,
    "aria-pressed": "false", tabindex: "-1", click: () => select(item)},
    inText(item.shown ?? words[item.id]).replace(/\n/g, "").replace(/^ (?=.)/, ""));
  element.item = item;
  return element;
}

// How sure the large model was at the place of an item: the odds of its likeliest word there.
const sureOf = ({round, i}) => round.likely[i][0][1];

// The darker a word, the surer the large model was. A rejected guess stands above its replacement.
function showText(run) {
  const cell = item => make("span.cell", {style: {"--sure": sureOf(item)}}, itemButton(item));
  put("text", make("span.soft", plainly(run.prompt)), items.map((item, n) => {
    const {kind, shown} = item, own = shown ?? words[item.id], next = items[n + 1];
    if (kind === "rejected" && next?.kind === "correction") return;
    const isPair = items[n - 1]?.kind === "rejected" && kind === "correction";
    return [/^ ./.test(own) && " ", isPair ? make("span.pair", itemButton(items[n - 1]), cell(item)) : cell(item),
      shown !== null && /\n$/.test(own) && !/^\n/.test(next?.shown ?? "") && "\n"];
  }));
  put("legend", make("li", "odds of the large model’s likeliest word: ", make("span.which", "0\u00a0% ", make("span.swatch.scale"), " 100\u00a0%")),
    ["rejected", "correction", "bonus"].map(kind => make("li", make("span.token." + kind, NAMES[kind]))), make("li.soft", "some are parts of words"));
}

// ---------------------------------------------------------------- why guesses are right

function showEasy(run) {
  const [large, small] = run.parameters, [drafted, examined, accepted] = [draftedIn, examinedIn, acceptedIn].map(count => count(run));
  const isOften = accepted > .5 * examined, who = small < large ? `a model ${rounded(large / small, 2)} times smaller` : "a guess";
  const sures = run.rounds.flatMap(round => range(round.examined).map(i => sureOf({round, i}))), sure = sum(sures) / sures.length;
  const behind = run.rounds.filter(round => round.examined < round.draft.length).map(round => round.accepted < round.examined ? "a rejected one" : "the end");
  put("h-easy", isOften ? `Why is ${who} so often right?` : `How often is ${who} right?`);
  put("surely", drafted > 0 && [make("b", `${accepted} of the ${plural(examined, "guess")} that were checked were accepted. `),
    isOften && isOurs(run) && `It was trained to imitate the large one, so ${isByChance(run) ? "its odds are often close to the large one’s" : "it often picks the same word"}, even where the large one is unsure: its likeliest word had ${percent(sure)} on average. `, make("b", wide("Click"), make("span.narrow", "Tap"), " any word.")]);
  put("rate", drafted > 0 && [`${plural(drafted, "guess")}: `, make("b", `${accepted} accepted`),
    `, ${examined - accepted} rejected${drafted > examined ? `, ${drafted - examined} not used, as they came after ${[...new Set(behind)].join(" or ")}` : ""}.`]);
}

// The rule of a run; that of the likeliest words is shown as if they were drawn by chance.
const ruleOf = run => !isByChance(run) ? "token" : run.settings.coupled ? "coupled" : run.settings.verification || "token";

// ---------------------------------------------------------------- one decision

// What became of it, in the run that is shown.
function explain({kind, round, i, id, p, q, ratio, u, P}) {
  const own = i < round.tokens.length && quoted(round.tokens[i]), guess = quoted(id), chance = isByChance(state.base);
  const rule = ruleOf(state.base), isKept = kind === "draft", ends = `the guess is ${isKept ? "accepted" : "rejected"}.`;
  const odds = !chance ? `The large model’s likeliest word is ${isKept ? `${guess}, too` : `${own}, not ${guess}`}: ${ends}`
    : {token: ratio < 1 ? `It had a ${percent(ratio)} chance (large ÷ small: ${quotient(p, q).replace(/ [=≈].*/, "")}). The random number was ${percent(u)}, ${isKept ? "below that: accepted" : "not below that: rejected"}.` : `The large model says it ${p > q ? "more" : "as"} often (large ${percent(p)}, small ${percent(q)}): always accepted.`,
      block: `The guesses up to this one are accepted together in ${percent(P)} of all cases.`,
      coupled: "Both models choose under the same noise here."}[rule];
  return {
    draft: odds,
    rejected: odds + (own ? ` In its place comes ${own}.` : ""),
    correction: `${i < round.draft.length ? `The guess was ${quoted(round.draft[i])}. ` : ""}${!chance ? `The large model’s likeliest word is ${guess}, so that comes instead.`
      : `In its place comes ${guess}${rule === "token" ? ", drawn from the words that the large model says more often than the small one" : ""}.`}`,
    bonus: "All guesses were accepted: behind the last one, the same fetch brought the large model’s own next word, for free.",
    target: "Nothing was guessed: written as by the large model alone.",
  }[kind];
}

// ---------------------------------------------------------------- p and q

// The likeliest tokens at a place of a round, likeliest by p first, and all others together, at last:
// [{id, p, q, both, over}]. both is what p and q share, over p’s excess over that; where
// nothing was drafted, q is null. The block rule holds P p against q, P being the chance that the
// drafts before are accepted.
function rowsAt(round, i) {
  const P = round.support && i > 0 ? round.support[i - 1] : 1;
  const rows = round.likely[i].map(([id, p, q]) => ({id, p: P * p, q, both: Math.min(P * p, q)}));
  const left = (whole, name) => Math.max(0, whole - sum(rows.map(row => row[name])));
  const drafted = rows[0].q !== null;
  const others = {id: null, p: left(P, "p"), q: drafted ? left(1, "q") : null,
    both: drafted ? left(round.overlap[i], "both") : 0};
  if (others.p + others.q > .0005) rows.push(others);
  for (const row of rows) row.over = row.p - row.both;
  return rows;
}

// The rule, with the odds of the guess that is chosen; and why words keep their odds.
function showRule(item, rows) {
  const {id} = item, isDrawn = rows[0].q !== null && ruleOf(state.base) === "token", isGuess = item.q !== undefined;
  const {p, q} = isGuess ? item : isDrawn && rows.find(row => row.id === id) || {}; // a replacement could have been guessed, too
  const lack = percent(Math.max(0, sum(rows.map(({over}) => over)))), b = (...text) => make("b", text), [of, from] = [p, q].map(x => percent(x));
  const missing = printed(p) - printed(q); // the sum adds up as it is printed
  put("odds", rows[0].q === null ? "Nothing was guessed here: a word comes up by the large model’s own odds."
    : ruleOf(state.base) === "coupled" ? "Both models choose under the same noise here: the same text, too."
    : p !== undefined && ["The small model says ", b(quoted(id)), ` in ${from} of cases, the large model in ${of}. `,
      isGuess && !isByChance(state.base) ? `If words were drawn at random, ${quoted(id)} would be ` : `${quoted(id)} is `,
      p >= q ? [b("always accepted"), ` as a guess, as the large model says it ${p > q ? "more" : "as"} often.`, missing > 0 && ` The missing ${percent(missing)} come as replacements of other guesses.`]
      : ["accepted in ", b(quotient(p, q)), ` of cases. So it comes in ${from} × ${percent(p / q)} ${gives(printed(q) * printed(p / q), of)}: the large model’s odds.`]]);
  put("exact", isDrawn && [b("Why it comes out exactly: "), "both sets of bars add up to 100\u00a0% and share the green, so the hatched pieces and the orange ones are equally large: ", b(lack), " each. A replacement is drawn in proportion to the orange pieces, so each purple bar is filled exactly, however bad the guesses."]);
}

// ---------------------------------------------------------------- the picture of the rule

// Of each row two bars over each other, from y to y + height in the row. The upper is q: what p has, too,
// is accepted, and the rest rejected. The lower is p: what was accepted, and what is replaced.
const UPPER = [.08, .36], LOWER = [.5, .42];
const KEY = {accepted: "accepted", rejected: "rejected", residual: "replacement"};

// A piece of a bar in the i-th of n rows, from one share of the width to another.
const piece = (kind, n, i, [y, height], from = 0, to = 0) => make("svg:rect." + kind,
  {x: share(from), width: share(to - from), y: share((i + y) / n), height: share(height / n)});

// What of the odds is as wide as the picture, and how much is left out within the bars of all others, which would make the words small.
function scaleOf(rows) {
  const longest = ({p, q}) => Math.max(p, q), isOne = ({id}) => id !== null, others = rows.find(row => !isOne(row));
  const most = Math.max(...rows.filter(isOne).map(longest), others ? longest(others) - .9 * others.both : 0);
  return {most: 1.08 * most, cut: others ? Math.max(0, longest(others) - most) : 0}; // draws vary
}

// Where x lies on the bars of a row, as a share of the width.
const along = (x, {id}, {most, cut}) => Math.max(0, x - (id === null ? cut : 0)) / most;

// The bars of the rows; parts: more, in front of them.
function bars(rows, scale, label, ...parts) {
  const n = rows.length, drafted = rows[0].q !== null, at = (x, i) => along(x, rows[i], scale);
  const outline = ([y, height], name) => make("svg:path." + name,
    {d: rows.map((row, i) => `M0 ${i + y}H${at(row[name], i)}V${i + y + height}H0`).join("")});
  const pieces = rows.flatMap(({p, q, both}, i) => drafted ? [["accepted", i, UPPER, 0, both], ["rejected", i, UPPER, both, q],
    ["accepted", i, LOWER, 0, both], ["residual", i, LOWER, both, p]] : [["sampled", i, LOWER, 0, p]]).filter(([, , , from, to]) => to > from);
  return make("svg:svg.bars", {role: "img", "aria-label": label},
    pieces.map(([kind, i, line, from, to]) => piece(kind, n, i, line, at(from, i), at(to, i))),
    scale.cut > 0 && make("svg:text.break", {x: share(at(rows.at(-1).both, n - 1) / 2), y: share((n - .3) / n)}, "//"),
    parts,
    make("svg:svg", {viewBox: `0 0 1 ${n}`, preserveAspectRatio: "none"}, drafted && outline(UPPER, "q"), outline(LOWER, "p")));
}

function showDistributions({round, i, id}, rows) {
  const drafted = rows[0].q !== null, P = round.support && i > 0, rule = ruleOf(state.base), isDrawn = drafted && rule === "token";
  const scale = scaleOf(rows);
  const drawn = kind => rows.map((_, i) => piece("drawn." + kind, rows.length, i, [LOWER[0] + .12, LOWER[1] - .24]));
  const counts = {accepted: drawn("accepted"), residual: drawn("residual"), tally: rows.map(() => make("td.number.out")), total: make("span.total"), key: make("span.room", "dark: came out"), scale,
    edges: rows.map((_, i) => make("svg:text.edge", {x: "100%", y: share((i + LOWER[0] + LOWER[1]) / rows.length)}))}, dots = make("svg:g");
  const picture = bars(rows, scale, "of each word, how often the small model says it, and how often the large one", counts.accepted, counts.residual, counts.edges);
  picture.append(dots);
  const head = (kind, ...text) => make(kind, {scope: "col"}, text), number = x => make("td.number", bareNumber(x));
  put("more", drafted && make("p.legend", make("span", "top bar: small model, bottom bar: large model"), Object.entries(KEY).map(([kind, name]) => make("span", make("span.swatch." + kind), name)), isDrawn && counts.key), make("table", {id: "likely"},
    make("thead", make("tr", head("th", "next word"), head("th", drafted ? "odds" : "the large model’s odds"),
      drafted && head("th.number", "small model (q) %"), head("th.number", "large model ", P ? "(P × p) %" : "(p) %"), isDrawn && make("th.number", {scope: "col"}, make("span.room", "came out\u00a0% ", counts.total)))),
    make("tbody", rows.map((row, n) => make(row.id === id ? "tr.chosen" : "tr", make("th", {scope: "row"}, row.id === null ? "many\nothers" : listed(row.id)),
      n === 0 && make("td.picture", {rowspan: rows.length}, picture), drafted && number(row.q), number(row.p), isDrawn && counts.tally[n])))),
    drafted && rule !== "token" && make("p.soft", "This is how the token rule decides; here " + (rule === "coupled" ? "the noise does."
      : `guesses are judged together${P ? ": P is the chance that those before this one are accepted" : ""}.`)),
    isDrawn && drawsPanel(rows, rows.findIndex(row => row.id === id), picture, counts, dots));
}

// ---------------------------------------------------------------- draws

const FEW = 10, N_DRAWS = 1000, DRAW_SECONDS = 3, SLOW_SECONDS = 1.2;
let drawing = null; // the draws that are under way
const after = seconds => new Promise(done => setTimeout(done, 1e3 * seconds));

// The index of the mass that `at`, from 0 to 1, hits where all of them lie end to end.
function pick(masses, at) {
  let left = at * sum(masses);
  const found = masses.findIndex(mass => (left -= mass) < 0);
  return found < 0 ? masses.findLastIndex(mass => mass > 0) : found;
}

// One draw, the rule itself: a guess from q falls somewhere on its bar. In what p and q share, it is
// accepted; beyond, it is rejected, and another word is drawn from what is lacking.
function drawOne(rows) {
  const guess = pick(rows.map(({q}) => q), Math.random()), place = Math.random() * rows[guess].q;
  return {guess, place, instead: place < rows[guess].both ? undefined : pick(rows.map(({over}) => over), Math.random())};
}

// Why a guess can be accepted.
const whyOf = ({id, p, q}) => id === null ? "." : p >= q ? ": the large model says it at least as often."
  : `: it had a ${percent(p / q)} chance.`;

// A draw in steps: [words, row, bar, place, kind].
function stepsOfDraw({guess, place, instead}, rows) {
  const name = i => make("b", rows[i].id === null ? "one of the others" : quoted(rows[i].id));
  const said = ["The small model guesses ", name(guess), ": "], at = kind => [guess, UPPER, place, kind];
  if (instead === undefined) return [[[...said, "…"], ...at("guess")], [[...said, make("span.mark.draft", "accepted"), whyOf(rows[guess])], guess, LOWER, place, "accepted"]];
  return [[[...said, "…"], ...at("guess")], [[...said, make("s", "rejected"), " …"], ...at("rejected")],
    [[...said, make("s", "rejected"), ", ", name(instead), " comes as its ", make("span.mark.correction", "replacement"), "."],
      instead, LOWER, rows[instead].both + (.2 + .6 * Math.random()) * rows[instead].over, "residual"]];
}

// From when they are first seen on: two examples, slowly, then many draws; then single ones, or
// as many anew. All draws but the examples are counted: the counts go towards p.
function drawsPanel(rows, chosen, picture, {accepted, residual, edges, tally, total, key, scale}, dots) {
  const counts = rows.map(() => ({accepted: 0, residual: 0})), whole = n => n.toLocaleString("en");
  let n = 0, waiting = null;
  // The difference from p, of an average word; as bars, how it was after 10, 100, ... draws.
  const gapOf = tally => sum(rows.map(({p}, i) => Math.abs(p - tally[i] / sum(tally)))) / rows.length;
  const gap = () => gapOf(counts.map(({accepted, residual}) => accepted + residual));
  // What chance gives in nine of ten cases: 200 times so many draws from p itself. It shrinks as one over the root of the draws.
  const lucky = () => { const tally = rows.map(() => 0); for (let i = 0; i < N_DRAWS; i++) tally[pick(odds, Math.random())]++; return gapOf(tally); };
  const odds = rows.map(({p}) => p); let chances = null;
  const usual = () => [10, 189].map(i => points((chances ??= range(200).map(lucky).sort((a, b) => a - b))[i] * Math.sqrt(N_DRAWS / n)));
  const points = x => (100 * x).toFixed(1);
  let before = []; const gaps = make("div.gaps.room", {"aria-hidden": "true"});
  const showGaps = () => gaps.replaceChildren(make("b", "average gap to the odds, in points"), ...[FEW, 100, N_DRAWS].flatMap((m, i) =>
    [make("span", `${whole(m)} draws`), make("i", {style: width((before[i] ?? 0) / .15)}), make("span", i in before ? points(before[i]) : "–")]));
  const count = ({guess, instead}) => {
    counts[instead ?? guess][instead === undefined ? "accepted" : "residual"]++;
    if ([FEW, 100, N_DRAWS].includes(++n)) before.push(gap());
  };
  const showCounts = () => {
    if (n < FEW) return; // too few to be a picture
    for (const element of [gaps, key, total.parentNode]) element.classList.remove("room");
    total.textContent = whole(n) + " ×";
    counts.forEach((count, i) => {
      const [own, all] = [count.accepted, count.accepted + count.residual].map(count => along(count / n, rows[i], scale));
      accepted[i].setAttribute("width", share(own)); // few draws reach the edge
      residual[i].setAttribute("x", share(own));
      residual[i].setAttribute("width", share(Math.min(all, 1) - own));
      edges[i].textContent = all > 1 ? "▸" : "";
      tally[i].textContent = bareNumber((count.accepted + count.residual) / n);
    });
    showGaps();
  };
  const tellCounts = () => {
    const replaced = sum(counts.map(({residual}) => residual));
    put("drawn", make("b", plural(n, "draw").replace(n, whole(n))), `: ${whole(n - replaced)} `, make("span.mark.draft", "accepted"), `, ${whole(replaced)} `,
      make("span.mark.correction", "replaced"), `. Average gap: ${points(gap())} points${n < 100 ? "" : `; chance alone mostly gives ${usual().join(" to ")}`}.`);
  };
  // Show some in slow steps, which are counted elsewhere, then draw many.
  async function draw(slow, many, seconds, tell = announce) {
    const mine = drawing = {}, isOver = () => drawing !== mine || !picture.isConnected;
    for (const one of slow) {
      for (const [says, row, [y, height], place, kind] of still.matches ? [] : stepsOfDraw(one, rows)) {
        if (kind === "guess") dots.replaceChildren(make("svg:circle", {r: 8}));
        const dot = dots.firstChild;
        dot.setAttribute("class", kind);
        for (const [name, value] of [["cx", along(place, rows[row], scale)], ["cy", (row + y + height / 2) / rows.length]]) dot.style.setProperty(name, share(value));
        put("drawn", says);
        await after(seconds);
        if (isOver()) return;
      }
    }
    dots.replaceChildren();
    if (many) { // a new count
      n = 0, before = [], waiting = null;
      for (const count of counts) count.accepted = count.residual = 0;
    }
    const begin = performance.now();
    for (let done = 0; done < many && !isOver();) {
      const part = still.matches ? 1 : (performance.now() - begin) / 1e3 / DRAW_SECONDS; // slow at first
      for (const due = clamp(Math.ceil(many * part ** 3), 1, many); done < due; done++) count(drawOne(rows));
      showCounts();
      tellCounts();
      if (!still.matches) await new Promise(requestAnimationFrame);
    }
    if (isOver()) return;
    if (still.matches) settle();
    if (many || still.matches) tellCounts(); // what became of one stays
    tell($("drawn").textContent);
  }
  drawing = null;
  const some = range(1000).map(() => drawOne(rows)), own = some.filter(({guess}) => guess === chosen);
  const isRejected = ({instead}) => instead !== undefined;
  const examples = [own.find(isRejected) ?? some.find(isRejected), own.find(one => !isRejected(one)) ?? some.find(one => !isRejected(one))];
  new IntersectionObserver(([{isIntersecting}]) => {
    if (isIntersecting && !drawing) draw(examples.filter(Boolean), N_DRAWS, SLOW_SECONDS, () => {});
  }, {threshold: .9}).observe(picture);
  showGaps();
  const settle = () => { if (waiting) { count(waiting); waiting = null; showCounts(); } };
  const drawNext = async () => { // counted when it has been shown, or when the next one comes
    settle();
    const one = waiting = drawOne(rows);
    await draw([one], 0, .8);
    if (waiting === one) settle();
  };
  const many = button(`Draw ${whole(N_DRAWS)}`, "draws", () => draw([], N_DRAWS, 0));
  many.classList.add("primary");
  return make("div.row.draws", many, button("Draw one", "draw", drawNext),
    make("p.soft", {id: "drawn"}, "Does each word come out as often as the large model says it?"),
    gaps);
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
  put("because", make("span.verdict." + kind, NAMES[kind]), " ", !["rejected", "correction"].includes(kind) && [quoted(item.id), ": "], explain(item));
  put("detail", make("span.soft", tailOf(run, item.r, i)), " ", make("b", bare(words[item.id])));
  const rows = rowsAt(round, i);
  put("h-chances", "And if words are drawn at random, as ChatGPT does?");
  showRule(item, rows);
  showDistributions(item, rows);
}

$("text").addEventListener("keydown", event => {
  const to = {ArrowRight: selected.n + 1, ArrowLeft: selected.n - 1, Home: 0, End: items.length - 1}[event.key];
  if (!items[to]) return;
  event.preventDefault();
  select(items[to]);
  $("text").querySelector("[tabindex='0']").focus();
});

// It opens on the first rejected word of the race that the small model says much too often.
function showMicroscope(run) {
  items = itemsOf(run);
  showText(run);
  showEasy(run);
  const rejected = items.filter(({kind}) => kind === "rejected");
  select(rejected.find(({p, q}) => q - p > .05) ?? rejected[0] ?? items[0]);
}
