// ---------------------------------------------------------------- when does it pay?
// Leviathan et al. 2023, theorem 3.8, with a cost for the verify pass: a round of K drafts yields
// 1 + a + ... + a^K tokens and costs K c + 1 + K extra passes over one place.

const MAP_K = 8, ROWS = 10; // of the map, or more if more were guessed
const knobs = {a: null, c: null, extra: null, K: null}; // null: as measured

const wordsOf = (a, K) => sum(range(K + 1).map(i => a ** i));
const digits3 = x => x.toFixed(3);
const speedupAt = (a, K, c, extra) => wordsOf(a, K) / (1 + K * (c + extra));

// What the page shows at this moment: measured values where no slider was moved. c: the seconds of a
// guess, extra: those that its place adds to a fetch, both in fetches of the large model alone.
function standing(run) {
  const {alone, guessing, rest, guesses} = costsOf(run);
  const drafted = Math.max(1, Math.round(guesses)), K = knobs.K ?? drafted; // look-up may guess fewer than K
  const a = knobs.a ?? acceptedIn(run) / (examinedIn(run) || 1), c = knobs.c ?? guessing / alone / guesses;
  const extra = knobs.extra ?? Math.max(0, rest / alone - 1) / guesses;
  const speedup = (a, k) => speedupAt(a, k, c, extra);
  const by = range(Math.max(MAP_K, drafted)).map(i => speedup(a, i + 1));
  return {K, a, c, extra, speedup, by};
}

function showMap(now) {
  const head = text => make("th", {scope: "col"}, text), rate = a => `${Math.round(100 * a)} %`;
  const near = Math.round(now.a * ROWS) / ROWS; // the row of the slider has its very value
  const row = tenth => make("tr", make("th", {scope: "row"}, tenth === near ? percent(now.a) : rate(tenth)), now.by.map((_, i) => {
    const speedup = now.speedup(tenth === near ? now.a : tenth, i + 1), gain = clamp((speedup - 1) / 2, 0, 1);
    const here = i + 1 === now.K && tenth === near;
    return make("td" + (here ? ".here" : "") + (speedup < .995 ? ".loss" : ""), {style: {"background-color":
      `color-mix(in srgb, var(--p) ${Math.round(45 * gain)}%, var(--card))`}}, speedup.toPrecision(2));
  }));
  put("map", make("table.map",
    make("caption", "How many times as fast, by the share a of the checked guesses that are accepted (down), and the "
      + "guesses for a fetch, K (across). Hatched: slower than alone. Framed: the sliders."),
    make("thead", make("tr", head("a"), now.by.map((_, i) => head(i + 1)))),
    make("tbody", range(ROWS + 1).map(i => row((ROWS - i) / ROWS)))));
}

function showVerdict(now) {
  const {K, a, c, extra} = now, speedup = now.by[K - 1], most = Math.max(...now.by);
  const near = range(now.by.length).filter(i => now.by[i] > .97 * most).map(i => i + 1);
  const run = state.base, isMeasured = knobs.a === null, costs = [c, extra].map(digits3); // the sum adds up as it is printed
  put("verdict", `With K = ${K} guesses${knobs.K === null && K < mostWords(run) - 1 ? ` (on average${run.parameters[1] ? ", fewer near the end" : ""}; ${mostWords(run) - 1} at most)` : ""}, and ${percent(a)} of those checked accepted${isMeasured ? ` (${acceptedIn(run)} of ${examinedIn(run)})` : ""}, a fetch writes 1 + a + … + a`, make("sup", "K"), ` = ${wordsOf(a, K).toFixed(2)} words. `,
    `It takes 1 + ${K} × (${costs.join(" + ")}) = ${(1 + K * sum(costs.map(Number))).toFixed(2)} times as long. So theory expects `, make("b", factor(speedup) + " as fast"),
    speedup < .995 && ": the large model alone is faster", Object.values(knobs).some(value => value !== null) ? ". " : `; measured: ${factor(speedupOf(run))}, with ${costsOf(run).written.toFixed(2)} words a fetch. `,
    `Best: K = ${near.length > 1 ? `${near[0]} to ${near.at(-1)}` : near[0]}.`);
}

function knob(name, says, value, low, high, step, show) {
  const output = make("output", show(value));
  return make("div.knob", make("span", says), output,
    slider({id: "knob-" + name, "aria-label": says, min: low, max: high, step}, value, show, to => {
      knobs[name] = to;
      output.textContent = show(to);
      showMoved();
    }));
}

function showMoved() {
  const now = standing(state.base);
  showMap(now);
  showVerdict(now);
}

function showPays(run) {
  for (const name in knobs) knobs[name] = null;
  $("pays").classList.toggle("silent", !draftedIn(run));
  if (!draftedIn(run)) return put("verdict", "Nothing was guessed in this text: the large model wrote it alone.");
  const now = standing(run);
  put("knobs",
    knob("a", "a: how many of the guesses that are checked are accepted", now.a, 0, 1, .01, percent),
    knob("c", "time of a guess, in fetches", now.c, 0, Math.max(1, now.c), .005, digits3),
    knob("extra", "time that one more word to check adds, in fetches", now.extra, 0, Math.max(1, now.extra), .005, digits3),
    knob("K", "K: guesses for a fetch", now.K, 1, now.by.length, 1, String),
    button("As measured", "as-measured", () => { showPays(state.base); $("as-measured").focus(); }));
  showMoved();
}
