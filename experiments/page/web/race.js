// ---------------------------------------------------------------- the race
// Both decoders on one clock. Each lane is a list of passes {kind, begin, end, says} and a list of
// tokens {end, text, source}; showing a moment means showing what had ended by then.

const race = {lanes: [], time: 0, length: 0, playing: false, frame: null};
const PASS_NAMES = {
  target: "a pass of the target", draft: "a pass of the draft", rule: "the rule, the filter and the loop",
};

function plainLane(run) {
  let end = 0;
  const passes = [], tokens = [];
  run.plain.tokens.forEach((id, i) => {
    const begin = end;
    end += run.plain.seconds[i];
    passes.push({kind: "target", begin, end, says: "target pass over 1 row: " + quoted(id)});
    tokens.push({end, id, text: run.plain.shown[i], source: "target"});
  });
  return {name: "Autoregressive", what: run.settings.target_model_size + " alone", passes, tokens};
}

function speculativeLane(run) {
  let end = 0;
  const passes = [], tokens = [];
  const add = (kind, seconds, says) => {
    passes.push({kind, begin: end, end: end + seconds, says});
    end += seconds;
  };
  run.rounds.forEach((round, r) => {
    const name = "round " + (r + 1) + ": ";
    const looked = round.passes.length ? round.passes : round.draft.length ? [round.seconds[0]] : [];
    looked.forEach((seconds, i) => {
      const found = round.passes.length ? round.draft.slice(i, i + 1) : round.draft;
      add("draft", seconds, name + "draft pass " + (i + 1) + ": " + found.map(quoted).join(" "));
    });
    add("target", round.seconds[1], name + "target pass over " + plural(round.draft.length + 1, "row"));
    add("rule", round.seconds[2],
      name + round.accepted + " of " + plural(round.draft.length, "draft") + " accepted, "
      + plural(round.tokens.length, "token") + " more");
    round.tokens.forEach((id, i) =>
      tokens.push({end, id, text: round.shown[i], source: round.sources[i]}));
  });
  const draft = run.settings.draft_model_size;
  const what = run.settings.target_model_size + " checks " + (draft === "ngram" ? "n-grams" : draft);
  return {name: "Speculative", what, passes, tokens};
}

function drawLane(lane, prompt, scale) {
  const strip = make("div.strip-inner");
  for (const pass of lane.passes) {
    strip.append(make("i.of-" + pass.kind, {title: pass.says + ", " + ms(pass.end - pass.begin),
      style: {left: pass.begin * scale + "px", width: Math.max(1, (pass.end - pass.begin) * scale - 1) + "px"}}));
  }
  const text = make("p.race-text", null, make("span.soft", null, prompt));
  lane.spans = lane.tokens.map(token =>
    make("span.token." + token.source, null, token.text.replace(/\n/g, "⏎\n") || "·"));
  text.append(...lane.spans);
  lane.strip = strip;
  lane.now = make("p.now.soft", null);
  lane.figures = make("p.lane-figures");
  return make("article.lane", {"aria-label": lane.name},
    make("header", null, make("h3", null, lane.name, make("span.soft", null, " " + lane.what)), lane.figures),
    make("div.strip", {"aria-hidden": "true"}, strip, make("b.head")), lane.now, text);
}

function showRace(run) {
  pause();
  $("race-stage").hidden = !run.plain;
  if (!run.plain) {
    $("race-lead").textContent = "This run has no autoregressive half to race against: "
      + "it was written with --mode speculative.";
    return;
  }
  race.lanes = [plainLane(run), speculativeLane(run)];
  race.length = Math.max(...race.lanes.map(lane => lane.passes.at(-1).end));
  race.stops = race.lanes[1].passes.map(pass => pass.end);
  const pass = race.lanes[0].passes.at(-1).end / race.lanes[0].passes.length;
  race.scale = 30 / pass; // pixels per second: 30 for a pass over one row
  $("race-lead").textContent = "The same prompt, the same target, one clock. Bars are the measured "
    + "times of " + (run.plain.timed ? "each pass" : "the passes (the autoregressive ones are equal shares of their total)")
    + "; a token appears when the pass that decides it has ended.";
  $("lanes").replaceChildren(...race.lanes.map(lane => drawLane(lane, run.prompt, race.scale)));
  const legend = ["target", "draft", "rule"].map(kind =>
    make("li", null, swatch("of-" + kind), PASS_NAMES[kind]));
  const sources = ["draft", "correction", "bonus", "target"].map(source =>
    make("li", null, make("span.token." + source, null, NAMES[source])));
  $("pass-legend").replaceChildren(...legend, ...sources);
  showMoment(page.live ? 0 : race.length);
}

const before = (list, time) => list.filter(item => item.end <= time + 1e-12);

function showMoment(time) {
  race.time = clamp(time, 0, race.length);
  const rates = race.lanes.map(lane => {
    const tokens = before(lane.tokens, race.time).length, last = lane.passes.at(-1).end;
    const passes = before(lane.passes, race.time).filter(pass => pass.kind === "target").length;
    const seconds = Math.min(race.time, last), rate = seconds ? tokens / seconds : 0;
    lane.spans.forEach((span, i) => span.classList.toggle("to-come", i >= tokens));
    lane.strip.style.transform = "translateX(" + (-race.time * race.scale).toFixed(1) + "px)";
    const current = lane.passes.find(pass => pass.end > race.time) || null;
    lane.now.textContent = race.time === 0 ? "ready" : current ? current.says : "finished after " + ms(last);
    lane.figures.replaceChildren(make("b", null, rate.toFixed(0)), " tokens/s  ",
      make("b", null, passes ? (tokens / passes).toFixed(2) : "–"), " tokens per target pass  ",
      make("b", null, String(tokens)), " tokens");
    return rate;
  });
  const ready = rates[0] > 0 && rates[1] > 0, speedup = rates[1] / rates[0];
  $("score").replaceChildren(make("b", null, ready ? times(speedup) : "–"),
    make("span.soft", null, ready ? "speedup at this moment" : "speedup: nobody has written a token yet"));
  $("score").classList.toggle("losing", ready && speedup < 1);
  $("clock").value = 1000 * race.time / race.length;
  $("clock").setAttribute("aria-valuetext", ms(race.time));
  $("clock-now").textContent = ms(race.time) + " of " + ms(race.length);
}

function slowness() {
  return Math.round(10 ** Number($("slow").value));
}

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
    announce("Your system asks for no motion: this is the end of the race; step through it instead.");
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

// To the end of the next or the last pass of the speculative lane, or to an end of the race.
function stepRace(direction) {
  pause();
  const small = race.length * 1e-9;
  const to = direction > 0 ? race.stops.find(stop => stop > race.time + small)
    : race.stops.findLast(stop => stop < race.time - small);
  showMoment(to === undefined ? (direction > 0 ? race.length : 0) : to);
  const done = race.lanes[1].passes.findLast(pass => pass.end <= race.time + small);
  announce(done ? done.says : "the start");
}

$("play").addEventListener("click", () => race.playing ? pause() : play());
$("rewind").addEventListener("click", () => { pause(); showMoment(0); });
$("finish").addEventListener("click", () => { pause(); showMoment(race.length); });
$("step").addEventListener("click", () => stepRace(1));
$("step-back").addEventListener("click", () => stepRace(-1));
$("clock").addEventListener("input", () => { pause(); showMoment($("clock").value / 1000 * race.length); });
$("slow").addEventListener("input", showSlowness);
opened.push(name => { if (name !== "race") pause(); });
showSlowness();
