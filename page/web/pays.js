// ---------------------------------------------------------------- when does it pay?
// Leviathan et al. 2023, theorem 3.8, with a cost for the verify pass: a round of K drafts yields
// 1 + a + ... + a^K tokens and costs K c + v(K) passes over one row, v(K) = 1 + K extra.

const MAP_K = 8, ROWS = 10; // of the map, or more if more were guessed
const knobs = {a: null, c: null, v: null, K: null}; // null: as measured

const speedupOf = (a, K, c, extra) => sum(range(K + 1).map(i => a ** i)) / (K * c + 1 + K * extra);

// What the page shows at this moment: measured values where no slider was moved.
function standing(run) {
  // look-up may guess fewer than K: the mean counts
  const drafted = Math.max(1, Math.round(draftedIn(run) / run.rounds.length));
  const turns = turnsOf(run), K = knobs.K ?? drafted;
  const a = knobs.a ?? acceptedIn(run) / (examinedIn(run) || 1), c = knobs.c ?? medianOf(turns, "c");
  const extra = knobs.v === null ? medianOf(turns, "extra") : (knobs.v - 1) / K;
  const speedup = (a, k) => speedupOf(a, k, c, extra);
  const by = range(Math.max(MAP_K, drafted)).map(i => speedup(a, i + 1));
  return {K, a, c, extra, speedup, by};
}

function showMap(now) {
  const head = text => make("th", {scope: "col"}, text), rate = a => `${Math.round(100 * a)} %`;
  const near = Math.round(now.a * ROWS) / ROWS; // the row of the slider has its very value
  const row = tenth => make("tr", make("th", {scope: "row"}, rate(tenth === near ? now.a : tenth)), now.by.map((_, i) => {
    const speedup = now.speedup(tenth === near ? now.a : tenth, i + 1), gain = clamp((speedup - 1) / 2, 0, 1);
    const here = i + 1 === now.K && tenth === near;
    return make("td" + (here ? ".here" : "") + (speedup < .995 ? ".loss" : ""), {style: {"background-color":
      `color-mix(in srgb, var(--p) ${Math.round(45 * gain)}%, var(--card))`}}, speedup.toFixed(2));
  }));
  put("map", make("table.map",
    make("caption", "How many times as fast, by the share of guesses that are right (down) and the "
      + "guesses in a round (across). Hatched: slower than alone. Framed: the sliders."),
    make("thead", make("tr", head("right"), now.by.map((_, i) => head(i + 1)))),
    make("tbody", range(ROWS + 1).map(i => row((ROWS - i) / ROWS)))));
}

function showVerdict(now) {
  const speedup = now.by[now.K - 1], most = Math.max(...now.by);
  const near = range(now.by.length).filter(i => now.by[i] > .97 * most).map(i => i + 1);
  const measured = median(turnsOf(state.base).map(({speedup}) => speedup));
  put("verdict",
    `With ${percent(now.a)} of the guesses right, ${now.K} in a round, theory expects `, make("b", times(speedup)),
    speedup < .995 ? ": the large model alone is faster. " : Object.values(knobs).some(value => value !== null) ? ". " : ` (measured: ${times(measured)}). `,
    `Fastest (within 3 %): ${near.length > 1 ? `${near[0]} to ${near.at(-1)}` : near[0]} in a round.`);
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
  const now = standing(state.base), element = $("knob-v"), v = (1 + now.K * now.extra).toFixed(2);
  if (knobs.v === null) element.value = element.previousElementSibling.textContent = v; // it follows K
  element.setAttribute("aria-valuetext", v);
  showMap(now);
  showVerdict(now);
}

function showPays(run) {
  for (const name in knobs) knobs[name] = null;
  $("pays").classList.toggle("silent", !draftedIn(run));
  if (!draftedIn(run)) return put("verdict", "Nothing was guessed in this text: the large model wrote it alone.");
  const now = standing(run);
  put("knobs",
    knob("a", "how often a guess is right", now.a, 0, 1, .01, percent),
    knob("c", "time of a guess, in passes of the large model", now.c, 0, Math.max(1, now.c), .005, x => x.toFixed(3)),
    knob("v", "time of a pass with guesses, in passes with none", 1 + now.K * now.extra, 1, 4, .01, x => x.toFixed(2)),
    knob("K", "guesses in a round", now.K, 1, now.by.length, 1, String),
    button("As measured", "as-measured", () => { showPays(state.base); $("as-measured").focus(); }));
  showMoved();
}
