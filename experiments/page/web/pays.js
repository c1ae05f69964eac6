// ---------------------------------------------------------------- when does it pay?
// Leviathan et al. 2023, theorem 3.8, with a cost for the verify pass (experiments/measuring/theory.py):
// a round of K drafts yields 1 + a + ... + a^K tokens and costs K c + v(K) passes over one row. A share h
// of the rounds drafts; the others are one pass for one token.

const MAP_K = 8, ROWS = 20;
const knobs = {a: null, c: null, v: null, K: null}; // null: as measured

const tokensPerRound = (a, K) => sum(Array.from({length: K + 1}, (_, i) => a ** i));
const speedupOf = (a, K, c, v, h) => (h * tokensPerRound(a, K) + 1 - h) / (h * (K * c + v) + 1 - h);

// Look-up drafts only where it finds something: of all positions, the share that it filled
// (drafting_share in experiments/measuring/statistics.py). With K auto, K is the longest draft.
function draftingShare(run) {
  if (run.settings.draft_model_size !== "ngram") return 1;
  const lengths = run.rounds.map(round => round.draft.length);
  return sum(lengths) / ((Number(run.settings.K) || Math.max(1, ...lengths)) * lengths.length);
}

// c and v(K): measured, or where this page has no measurements, from the passes of its run.
function costsOf(run) {
  if (state.costs) return state.costs;
  if (!run.plain) return null;
  const one = sum(run.plain.seconds) / run.plain.seconds.length, K = run.settings.K;
  const full = run.rounds.filter(round => round.draft.length === K);
  if (!full.length) return null;
  const mean = part => sum(full.map(round => round.seconds[part])) / full.length / one;
  const slope = (mean(1) - 1) / K;
  return {c: mean(0) / K, v: Array.from({length: MAP_K + 1}, (_, k) => 1 + slope * k), rough: true};
}

function verifyCost(costs, K, here) {
  if (knobs.v !== null) return 1 + (knobs.v - 1) * K / here;
  const last = costs.v.length - 1;
  return K <= last ? costs.v[K] : costs.v[last] + (K - last) * (costs.v[last] - 1) / last;
}

const bucket = speedup => speedup < .7 ? "loss-2" : speedup < 1 ? "loss-1" : speedup < 1.25 ? "gain-1"
  : speedup < 1.6 ? "gain-2" : speedup < 2.2 ? "gain-3" : "gain-4";

// What the page shows at this moment: measured values where no slider was moved.
function standing(run) {
  const costs = costsOf(run), K = knobs.K || clamp(run.settings.K, 1, MAP_K);
  const a = knobs.a === null ? acceptance(run) : knobs.a, c = knobs.c === null ? costs.c : knobs.c;
  const v = k => verifyCost(costs, k, K), h = draftingShare(run);
  const by = Array.from({length: MAP_K}, (_, i) => speedupOf(a, i + 1, c, v(i + 1), h));
  return {costs, K, a, c, v, h, by, best: by.indexOf(Math.max(...by)) + 1};
}

function showMap(now) {
  const head = make("tr", null, make("th", {scope: "col"}, "a \\ K"),
    ...now.by.map((_, i) => make("th", {scope: "col"}, String(i + 1))));
  const rows = Array.from({length: ROWS + 1}, (_, i) => 1 - i / ROWS).map(a => {
    const near = Math.abs(a - now.a) <= .5 / ROWS + 1e-9;
    return make("tr", null, make("th", {scope: "row"}, Math.round(100 * a) + " %"),
      ...now.by.map((_, i) => {
        const speedup = speedupOf(a, i + 1, now.c, now.v(i + 1), now.h);
        const here = near && i + 1 === now.K;
        return make("td." + bucket(speedup) + (here ? ".here" : ""), here ? {title: "you are here"} : null,
          speedup.toFixed(2));
      }));
  });
  const legend = [["loss-2", "loses"], ["loss-1", "loses a little"], ["gain-1", "1 to 1.25"],
    ["gain-2", "to 1.6"], ["gain-3", "to 2.2"], ["gain-4", "more"]];
  $("map").replaceChildren(
    make("table.map", null, make("caption", null, "Speedup by acceptance a (down) and K (across). Hatched: slower than no draft at all."),
      make("thead", null, head), make("tbody", null, ...rows)),
    make("ul.legend", null, ...legend.map(([kind, says]) => make("li", null, swatch(kind), says)),
      make("li", null, swatch("here"), "you are here")));
}

function showVerdict(run, now) {
  const speedup = now.by[now.K - 1], most = Math.max(...now.by);
  const moved = ["a", "c", "v", "K"].some(name => knobs[name] !== null);
  const rows = now.by.map((value, i) => barRow("K = " + (i + 1), [bar(value / most, value < 1 ? "loses" : "gains")],
    [times(value)], i + 1 === now.K ? "chosen" : ""));
  let equal = null;
  for (let a = 0; a <= 1.0001 && equal === null; a += .005) {
    if (speedupOf(a, now.K, now.c, now.v(now.K), now.h) >= 1) equal = a;
  }
  const raced = run.speedup !== null && !moved && run.settings.K === now.K;
  const measured = !raced ? "" : " The race measured " + times(run.speedup)
    + ": the formula takes every draft to be accepted with the same chance, and leaves out the rule.";
  $("verdict").replaceChildren(
    make("p.distance" + (speedup < 1 ? ".wrong" : ".right"), null, make("b", null, times(speedup)),
      make("span", null, speedup < 1 ? "here it loses: plain decoding is faster" : "expected here")),
    make("p", null, "Fastest: K = " + now.best + ", " + times(now.by[now.best - 1]) + ". With K = " + now.K
      + (!now.h ? " nothing was drafted here." : equal === null ? " nothing gains, not even a draft that is always right."
        : " it pays from an acceptance of " + percent(equal) + " on.") + measured),
    tableOf(null, null, null, rows));
}

function knob(name, says, value, low, high, step, show) {
  const output = make("output", null, show(value));
  const limits = {id: "knob-" + name, min: String(low), max: String(high), step: String(step)};
  return make("label.knob", null, make("span", null, says), output, slider(limits, value, show, to => {
    knobs[name] = to;
    output.textContent = show(to);
    showMoved();
  }));
}

function showKnobs(now) {
  const back = make("button", {type: "button", id: "as-measured"}, "As measured");
  back.addEventListener("click", () => showPays(state.base));
  $("knobs").replaceChildren(
    knob("a", "a: a draft is accepted", now.a, 0, 1, .01, percent),
    knob("c", "c: drafting a token, in target passes", now.c, 0, 1, .005, x => x.toFixed(3)),
    knob("v", "v: the verify pass over K + 1 rows", now.v(now.K), 1, 4, .01, x => x.toFixed(2)),
    knob("K", "K: tokens drafted in a round", now.K, 1, MAP_K, 1, String), back);
}

function showMoved() {
  const now = standing(state.base);
  showMap(now);
  showVerdict(state.base, now);
}

function showPays(run) {
  Object.assign(knobs, {a: null, c: null, v: null, K: null});
  const costs = costsOf(run);
  $("pays-stage").hidden = !costs;
  $("pays-lead").textContent = !costs ? (live ? "The costs of this machine are being measured."
    : "This run has no measured costs: they need both decoders, and a K that stays the same.")
    : "A round of K drafts costs K c + v passes and yields 1 + a + … + a^K tokens. "
      + (costs.rough ? "c and v are those of this run’s own passes." : "c and v were measured on this machine: a pass of the target over one row takes "
      + ms(costs.target_seconds) + ", drafting a token " + number(costs.c) + " of that.");
  if (!costs) return;
  const now = standing(run);
  if (now.h < 1) $("pays-lead").textContent += " Look-up filled " + percent(now.h)
    + " of the positions that it could draft. The formula takes this as the share of rounds that draft.";
  showKnobs(now);
  showMap(now);
  showVerdict(run, now);
}
