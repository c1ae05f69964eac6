// ---------------------------------------------------------------- when does it pay?
// Leviathan et al. 2023, theorem 3.8, with a cost for the verify pass (decoding/theory.py): a round
// of K drafts yields 1 + a + ... + a^K tokens and costs K c + v(K) passes over one row. A share h of
// the rounds drafts; the others are one pass for one token.

const MAP_K = 8, ROWS = 20;
const AS_MEASURED = {a: null, c: null, v: null, K: null};
const knobs = {...AS_MEASURED};

const tokensPerRound = (a, K) => sum(range(K + 1).map(i => a ** i));
const speedupOf = (a, K, c, v, h) => (h * tokensPerRound(a, K) + 1 - h) / (h * (K * c + v) + 1 - h);
const acceptance = run => run.figures.acceptance_rate ?? 0;

// Look-up drafts only where it finds something: of all positions, the share that it filled
// (drafting_share in experiments/benchmark/intervals.py). With K auto, K is the longest draft.
function draftingShare(run) {
  if (run.settings.draft_model_size !== "ngram") return 1;
  const lengths = run.rounds.map(round => round.draft.length);
  return sum(lengths) / ((Number(run.settings.K) || Math.max(1, ...lengths)) * lengths.length);
}

function verifyCost(costs, K, here) {
  if (knobs.v !== null) return 1 + (knobs.v - 1) * K / here;
  const last = costs.v.length - 1;
  return K <= last ? costs.v[K] : costs.v[last] + (K - last) * (costs.v[last] - 1) / last;
}

// What the page shows at this moment: measured values where no slider was moved.
function standing(run) {
  const {costs} = state, h = draftingShare(run);
  const most = Math.min(MAP_K, costs.v.length - 1), K = knobs.K ?? clamp(run.settings.K, 1, most);
  const a = knobs.a ?? acceptance(run), c = knobs.c ?? costs.c, v = k => verifyCost(costs, k, K);
  const speedup = (a, k) => speedupOf(a, k, c, v(k), h);
  const by = range(most).map(i => speedup(a, i + 1));
  // the fastest K of each turn of the measurement: where they disagree, it is noise
  const turns = knobs.c ?? knobs.v ? [] : costs.turns;
  const bests = [by, ...turns.map(turn => by.map((_, i) =>
    speedupOf(a, i + 1, turn.c, turn.v[i + 1], h)))].map(all => all.indexOf(Math.max(...all)) + 1);
  return {K, a, c, v, h, speedup, by, bests};
}

// [speedup below, colour]
const HEAT = [[.7, "loss-2"], [1, "loss-1"], [1.25, "gain-1"], [1.6, "gain-2"], [2.2, "gain-3"],
  [Infinity, "gain-4"]];

function showMap(now) {
  const head = text => make("th", {scope: "col"}, text), rate = a => `${Math.round(100 * a)} %`;
  const row = a => make("tr", make("th", {scope: "row"}, rate(a)), now.by.map((_, i) => {
    const speedup = now.speedup(a, i + 1), [, colour] = HEAT.find(([below]) => speedup < below);
    const here = i + 1 === now.K && Math.abs(a - now.a) <= .5 / ROWS + 1e-9;
    return make("td" + (here ? ".here" : "") + (speedup < 1 ? ".loss" : ""),
      {style: {backgroundColor: `var(--${colour})`}}, speedup.toFixed(2));
  }));
  put("map", make("table.map",
    make("caption", "Speedup by acceptance a (down) and K (across). Hatched: slower than the large "
      + "model alone. In a frame: the values of the sliders."),
    make("thead", make("tr", head("a \\ K"), now.by.map((_, i) => head(i + 1)))),
    make("tbody", range(ROWS + 1).map(i => row(1 - i / ROWS)))));
}

function showVerdict(now) {
  const speedup = now.by[now.K - 1], most = Math.max(...now.by);
  const low = Math.min(...now.bests), high = Math.max(...now.bests);
  const equal = range(1001).map(i => i / 1000).find(a => now.speedup(a, now.K) >= 1);
  const pays = !now.h ? "nothing was guessed here"
    : equal === undefined ? "nothing gains, not even guesses that are always right"
    : `it pays from an acceptance of ${percent(equal)} on`;
  put("verdict",
    make("p", "Computed from a, c, v and K: ", make("b", times(speedup)),
      speedup < 1 && ", the large model alone is faster",
      state.base.speedup && `. In the race it was ${times(state.base.speedup)}`, "."),
    make("p", low === high ? `Fastest: K = ${low}, ${times(most)}.`
        : `Which K is fastest is too noisy to tell: the turns of the measurement say ${low} to ${high}.`,
      ` With K = ${now.K} ${pays}.`));
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
  Object.assign(knobs, AS_MEASURED);
  const {costs} = state, h = draftingShare(run);
  $("pays-stage").hidden = !costs;
  $("pays-lead").textContent = !costs ? (live ? "The costs of this machine are being measured."
    : "This page was saved without measured costs: python main.py play measures them.")
    : "A round of K drafts costs K c + v passes of the large model and yields 1 + a + … + a^K tokens, "
      + "if every guess is accepted with the same chance a. "
      + "c and v were measured on the machine of this run: a round of the large model alone takes "
      + `${ms(costs.target_seconds)}, a guess ${number(costs.c)} of that.`
      + (h < 1 ? ` Look-up filled ${percent(h)} of the positions that it could draft. `
        + "The formula takes this as the share of rounds that draft." : "");
  if (!costs) return;
  const now = standing(run);
  put("knobs",
    knob("a", "a: a guess is accepted", now.a, 0, 1, .01, percent),
    knob("c", "c: the small model guesses a token", now.c, 0, 1, .005, x => x.toFixed(3)),
    knob("v", "v: the large model checks K guesses", now.v(now.K), 1, 4, .01, x => x.toFixed(2)),
    knob("K", "K: guesses in a round", now.K, 1, now.by.length, 1, String),
    button("As measured", "as-measured", () => { showPays(state.base); $("as-measured").focus(); }));
  showMoved();
}
