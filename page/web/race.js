// ---------------------------------------------------------------- the race
// Both decoders on one clock. Each lane has passes {kind, begin, end, r, says} and tokens {kind,
// text, r, guessed, end}: a token shows as a guess from `guessed` on, as what became of it from
// `end` on. r is the round.

const race = {lanes: [], time: 0, length: 1, playing: false, frame: null};
const PASS_NAMES = {
  target: "a pass of the large model", draft: "a pass of the small model",
  rule: "accepting, sampling, the loop",
};

// A lane to be filled: pass(...) and token(...) add what follows on its clock.
function emptyLane(name) {
  const lane = {name, passes: [], tokens: [], end: 0};
  lane.pass = (kind, seconds, r, says) =>
    lane.passes.push({kind, begin: lane.end, end: lane.end += seconds, r, says});
  lane.token = (kind, text, r, guessed = lane.end) =>
    lane.tokens.push({kind, text: plainly(text).replace(/\n/g, "⏎") || "·", r, guessed, end: lane.end});
  return lane;
}

function plainLane({plain}) {
  const mean = plain.timed ? "" : " Passes were not timed one by one: this is the mean.";
  const lane = emptyLane("Large model alone");
  plain.tokens.forEach((id, r) => {
    lane.pass("target", plain.seconds[r], r, `The large model writes ${quoted(id)}.${mean}`);
    lane.token("alone", plain.shown[r], r);
  });
  return lane;
}

function speculativeLane(run) {
  const lane = emptyLane("Large model with a small guesser");
  run.rounds.forEach((round, r) => {
    const n = round.draft.length, [draft, target, rule] = round.seconds;
    if (!n) lane.pass("draft", draft, r, "The small model guesses nothing.");
    const guessed = round.draft.map(id => {
      lane.pass("draft", draft / n, r, `The small model guesses ${quoted(id)}.`);
      return lane.end;
    });
    lane.pass("target", target, r, `The large model checks ${plural(n, "guess")} in one pass.`);
    lane.pass("rule", rule, r, `${round.accepted} of ${plural(n, "guess")} accepted, `
      + `${plural(round.tokens.length, "token")} written.`);
    round.draft.forEach((id, i) =>
      lane.token(kindOf(round, i), i < round.accepted ? round.shown[i] : words[id], r, guessed[i]));
    for (let i = round.accepted; i < round.tokens.length; i++) {
      lane.token(round.sources[i], round.shown[i], r);
    }
  });
  return lane;
}

// Mark the tokens and passes of a round of a lane, or those of one kind; none where r is null.
function light(lane, r, kind) {
  for (const [elements, what] of [[lane.spans, lane.tokens], [lane.bars, lane.passes]]) {
    elements.forEach((element, i) => element.toggleAttribute("data-lit",
      what[i].r === r && (!kind || what[i].kind === kind)));
  }
}

function drawLane(lane, prompt) {
  lane.bars = lane.passes.map(({kind, begin, end, r, says}) => make("i.of-" + kind, {
    title: `${says} ${ms(end - begin)}`,
    style: {left: share(begin / race.length), width: share((end - begin) / race.length)},
    pointerenter: () => light(lane, r), pointerleave: () => light(lane, null)}));
  lane.spans = lane.tokens.map(({text}) => make("span.token", text));
  lane.count = make("span.soft");
  lane.head = make("b.head");
  lane.flag = make("b.flag", {style: at(lane.end / race.length)}, wholeMs(lane.end));
  lane.text = make("p.written", {role: "group", "aria-label": lane.name, tabindex: 0, dir: "auto"},
    make("span.soft", plainly(prompt)), lane.spans);
  $("tracks").append(make("div.row.between", make("h3", lane.name), lane.count),
    make("div.strip", {"aria-hidden": "true"}, lane.bars, lane.head, lane.flag));
  $("texts").append(make("div.lane", make("span.soft", {"aria-hidden": "true"}, lane.name), lane.text));
}

const isSameText = run => run.plain.tokens.join() === run.figures.token_ids.join();

// Why both texts are the same, or are not.
function aboutTexts(run) {
  const same = isSameText(run), {temperature} = run.settings;
  if (same && temperature === 0) {
    return "Both texts are the same, word for word: a guess stays only where it is the word that "
      + "the large model writes itself. Wrong guesses cost time; they never change the text.";
  }
  if (same && run.coupled) {
    return "Both texts are the same: every word is chosen under the same noise in both.";
  }
  return `At temperature ${temperature} words are drawn at random, so two runs write two texts. `
    + "Both draw each word with the large model’s probabilities: a wrong guess is replaced so that "
    + "they stay exactly the same.";
}

function showRace(run) {
  pause();
  $("race-stage").hidden = !run.plain;
  $("race-lead").hidden = Boolean(run.plain);
  if (!run.plain) return;
  race.lanes = [plainLane(run), speculativeLane(run)];
  race.length = Math.max(...race.lanes.map(lane => lane.end)) || 1;
  put("tracks");
  put("texts");
  for (const lane of race.lanes) drawLane(lane, run.prompt);
  put("pass-legend",
    Object.keys(PASS_NAMES).map(kind => make("li", swatch("of-" + kind), PASS_NAMES[kind])),
    legendOf(["draft", "rejected", "correction", "bonus", "target"], race.lanes[1].tokens),
    make("li", "⏎ a line break"));
  $("speedup").className = "big" + (!run.speedup ? "" : run.speedup < 1 ? " wrong" : " right");
  put("speedup", make("b", run.speedup ? times(run.speedup) : "–"),
    !run.speedup ? "both are being timed" : isSameText(run) ? "as fast, with the same text" : "as fast");
  put("about-texts", run.speedup ? aboutTexts(run) + " " : "", otherRun(run));
  $("guide").hidden = run.speedup && !tellingItem(itemsOf(run));
  showMoment(live && !still.matches ? 0 : race.length);
}

function showMoment(time, says) {
  race.time = clamp(time, 0, race.length);
  const now = race.time + 1e-12, fast = race.lanes[1];
  for (const lane of race.lanes) {
    let written = 0;
    lane.tokens.forEach(({kind, guessed, end}, i) => {
      const isGuess = now < end;
      lane.spans[i].className = `token ${kind}${isGuess ? " ghost" : ""}`;
      lane.spans[i].hidden = now < guessed || !isGuess && kind === "unexamined";
      written += !isGuess && !(kind in {rejected: 0, unexamined: 0});
    });
    lane.count.textContent = plural(written, "token");
    lane.head.style.left = share(race.time / race.length);
    lane.flag.hidden = now < lane.end;
    lane.head.hidden = !lane.flag.hidden;
    const last = lane.spans.findLast(span => !span.hidden); // what is written last is in sight
    if (last) lane.text.scrollTop = last.offsetTop + last.offsetHeight - lane.text.clientHeight;
    light(lane, null);
  }
  const isRunning = race.time > 0 && race.time < race.length;
  $("now").textContent = says || (!isRunning ? "Play the race, or take it in four steps."
    : fast.passes.find(pass => pass.end > race.time)?.says || "The large model alone still writes.");
  $("clock").value = 1000 * race.time / race.length;
  $("clock").setAttribute("aria-valuetext", ms(race.time));
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
    announce("Your system asks for no motion: this is the end of the race; take it in four steps.");
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

function jump(time, says) {
  pause();
  showMoment(time, says);
}

// ---------------------------------------------------------------- one round in four steps

// Guess, check, reject or replace: a moment of the round of a rejected guess, and what happens then.
function showStep(step) {
  const run = state.base, {r, round, i} = tellingItem(itemsOf(run)), [, lane] = race.lanes;
  const n = round.draft.length, guesses = round.draft.map(quoted).join(" ");
  const alone = sum(run.plain.seconds) / run.plain.seconds.length;
  const why = run.settings.temperature === 0 || run.coupled ? "the large model chooses another word."
    : "the large model finds it less likely than the small one, and chance decided against it.";
  const says = [
    `The small model guesses ${plural(n, "token")} in ${ms(round.seconds[0])}: ${guesses}.`,
    `The large model checks ${n === 1 ? "it" : `all ${n}`} in one pass of ${ms(round.seconds[1])}. `
      + `Writing one token alone takes it ${ms(alone)}.`,
    `${quoted(round.draft[i])} is rejected: ${why} The guesses after it are forgotten.`,
    `The same pass tells what the large model writes in its place: ${quoted(round.tokens[i])}. `
      + `One pass, ${plural(round.tokens.length, "token")}.`,
  ][step];
  const ends = lane.passes.filter(pass => pass.r === r).map(pass => pass.end);
  jump(ends.at([-3, -2, -1, -1][step]), says);
  light(lane, r, [null, "target", "rejected", "correction"][step]);
  const to = lane.tokens.findIndex(token => token.r === r && token.kind === "correction");
  lane.spans[to].hidden = step < 3;
  announce(says);
}

[...$("guide").querySelectorAll("button")].forEach((step, i) =>
  step.addEventListener("click", () => showStep(i)));
$("play").addEventListener("click", () => race.playing ? pause() : play());
$("clock").addEventListener("input", () => jump($("clock").value / 1000 * race.length));
$("slow").addEventListener("input", showSlowness);
opened.push(name => { if (name !== "race") pause(); });
showSlowness();
