// ---------------------------------------------------------------- the race
// Both decoders on one clock. Each lane is a list of passes {kind, begin, end, says} and a list of
// tokens {end, id, text, source}; showing a moment means showing what had ended by then.

const race = {lanes: [], time: 0, length: 0, playing: false, frame: null};
const PASS_NAMES = {
  target: "a pass of the target", draft: "a pass of the draft",
  rule: "the rule, the filter and the loop",
};

// A lane to be filled: pass(...) and token(...) add what follows on its clock.
function emptyLane(name, what) {
  const lane = {name, what, passes: [], tokens: [], end: 0};
  lane.pass = (kind, seconds, says) =>
    lane.passes.push({kind, begin: lane.end, end: lane.end += seconds, says});
  lane.token = (id, text, source) => lane.tokens.push({end: lane.end, id, text, source});
  return lane;
}

function plainLane(run) {
  const lane = emptyLane("Autoregressive", run.settings.target_model_size + " alone");
  run.plain.tokens.forEach((id, i) => {
    lane.pass("target", run.plain.seconds[i], "target pass over 1 row: " + quoted(id));
    lane.token(id, run.plain.shown[i], "target");
  });
  return lane;
}

function speculativeLane(run) {
  const {target_model_size: target, draft_model_size: size} = run.settings;
  const draft = size === "ngram" ? "n-grams" : size;
  const lane = emptyLane("Speculative", `${target} checks ${draft}`);
  run.rounds.forEach((round, r) => {
    const name = `round ${r + 1}:`, n = round.draft.length, drafts = round.draft.map(quoted);
    round.passes.forEach((seconds, i) =>
      lane.pass("draft", seconds, `${name} draft pass ${i + 1}: ${drafts[i] ?? ""}`));
    if (n && !round.passes.length) { // looked up, all at once
      lane.pass("draft", round.seconds[0], `${name} draft: ${drafts.join(" ")}`);
    }
    lane.pass("target", round.seconds[1], `${name} target pass over ${plural(n + 1, "row")}`);
    lane.pass("rule", round.seconds[2],
      `${name} accepted ${examinedOf(round)}, ${plural(round.tokens.length, "token")} more`);
    round.tokens.forEach((id, i) => lane.token(id, round.shown[i], round.sources[i]));
  });
  return lane;
}

function drawLane(lane, prompt) {
  lane.strip = make("div.strip-inner", lane.passes.map(({kind, begin, end, says}) => {
    const left = `${begin * race.scale}px`;
    const width = `${Math.max(1, (end - begin) * race.scale - 1)}px`;
    return make("i.of-" + kind, {title: `${says}, ${ms(end - begin)}`, style: {left, width}});
  }));
  lane.spans = lane.tokens.map(({text, source}) =>
    make("span.token." + source, text.replace(/\n/g, "⏎\n") || "·"));
  lane.now = make("p.now.soft");
  lane.figures = make("p.lane-figures");
  return make("article.lane", {"aria-label": lane.name},
    make("div.row.between", make("h3", lane.name, make("span.soft", " " + lane.what)),
      lane.figures),
    make("div.strip", {"aria-hidden": "true"}, lane.strip, make("b.head")), lane.now,
    make("p.written", make("span.soft", prompt), lane.spans));
}

function showRace(run) {
  pause();
  $("race-stage").hidden = !run.plain;
  $("race-lead").textContent = !run.plain
    ? "This run has no autoregressive half to race against: it was written with --mode speculative."
    : "The same prompt, the same target, one clock. Bars are the measured times of "
      + (run.plain.timed ? "each pass"
        : "the passes (the autoregressive ones are equal shares of their total)")
      + "; a token appears when the pass that decides it has ended.";
  if (!run.plain) return;
  race.lanes = [plainLane(run), speculativeLane(run)];
  const [plain, fast] = race.lanes;
  race.length = Math.max(plain.end, fast.end);
  // pixels per second: 30 for a pass over one row
  race.scale = 30 * plain.passes.length / plain.end;
  put("lanes", race.lanes.map(lane => drawLane(lane, run.prompt)));
  put("pass-legend",
    ["target", "draft", "rule"].map(kind => make("li", swatch("of-" + kind), PASS_NAMES[kind])),
    Object.keys(MEANINGS).map(kind => make("li", make("span.token." + kind, NAMES[kind]))));
  // a saved race opens where its first lane has finished
  showMoment(live && !still.matches ? 0 : Math.min(plain.end, fast.end));
}

function showMoment(time) {
  race.time = clamp(time, 0, race.length);
  const before = list => list.filter(item => item.end <= race.time + 1e-12);
  const rates = race.lanes.map(lane => {
    const tokens = before(lane.tokens).length, seconds = Math.min(race.time, lane.end);
    const passes = before(lane.passes).filter(pass => pass.kind === "target").length;
    const rate = seconds ? tokens / seconds : 0;
    const current = lane.passes.find(pass => pass.end > race.time);
    lane.spans.forEach((span, i) => span.classList.toggle("to-come", i >= tokens));
    // the passes of a lane that has finished stay in sight
    const shown = Math.min(race.time, lane.end) * race.scale;
    lane.strip.style.transform = `translateX(${(-shown).toFixed(1)}px)`;
    lane.now.textContent = race.time === 0 ? "ready"
      : current ? current.says : `finished after ${ms(lane.end)}`;
    lane.figures.replaceChildren(make("b", rate.toFixed(0)), " tokens/s  ",
      make("b", passes ? (tokens / passes).toFixed(2) : "–"), " tokens per target pass  ",
      make("b", String(tokens)), " tokens");
    return rate;
  });
  const ready = rates[0] > 0 && rates[1] > 0, speedup = rates[1] / rates[0];
  put("score", make("b", ready ? times(speedup) : "–"),
    ready ? "speedup at this moment" : "speedup: nobody has written a token yet");
  $("score").className = "big " + (ready && speedup < 1 ? "wrong" : "right");
  $("clock").value = 1000 * race.time / race.length;
  $("clock").setAttribute("aria-valuetext", ms(race.time));
  $("clock-now").textContent = `${ms(race.time)} of ${ms(race.length)}`;
}

const slowness = () => Math.round(10 ** Number($("slow").value));

function showSlowness() {
  $("slow-now").textContent = slowness() + " ×";
  $("slow").setAttribute("aria-valuetext", slowness() + " times");
}

function pause() {
  race.playing = false;
  cancelAnimationFrame(race.frame);
  $("play").textContent = "Play";
}

function play() {
  if (still.matches) { // no motion: the end at once, and steps
    showMoment(race.length);
    announce("Your system asks for no motion: this is the end of the race; step through it.");
    return;
  }
  if (race.time >= race.length) showMoment(0);
  race.playing = true;
  $("play").textContent = "Pause";
  let last = performance.now();
  const tick = now => {
    showMoment(race.time + (now - last) / 1e3 / slowness());
    last = now;
    if (race.time >= race.length) pause();
    else race.frame = requestAnimationFrame(tick);
  };
  race.frame = requestAnimationFrame(tick);
}

function jump(time) {
  pause();
  showMoment(time);
}

// To the end of the next or the last pass of the speculative lane, or to an end of the race.
function stepRace(direction) {
  const small = race.length * 1e-9, passes = race.lanes[1].passes;
  const to = direction > 0 ? passes.find(pass => pass.end > race.time + small)
    : passes.findLast(pass => pass.end < race.time - small);
  jump(to ? to.end : direction > 0 ? race.length : 0);
  const done = passes.findLast(pass => pass.end <= race.time + small);
  announce(done ? done.says : "the start");
}

$("play").addEventListener("click", () => race.playing ? pause() : play());
$("rewind").addEventListener("click", () => jump(0));
$("finish").addEventListener("click", () => jump(race.length));
$("step").addEventListener("click", () => stepRace(1));
$("step-back").addEventListener("click", () => stepRace(-1));
$("clock").addEventListener("input", () => jump($("clock").value / 1000 * race.length));
$("slow").addEventListener("input", showSlowness);
opened.push(name => { if (name !== "race") pause(); });
showSlowness();
