// ---------------------------------------------------------------- the race
// Both decoders on one clock. Each lane has passes {kind, begin, end, r, says} and tokens {kind,
// text, r, guessed, end}: a token shows as a guess from `guessed` on, as what became of it from
// `end` on. r is the round.

const race = {lanes: [], time: 0, length: 1, playing: false, frame: null};
const PASS_NAMES = {
  target: "a pass of the large model", draft: "the small model’s passes, a short one for each guess",
  rule: "the rest: accept or reject, bookkeeping",
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
  const lane = emptyLane("Large model with small model");
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

// Mark a round's tokens and passes that have begun, or those of one kind; none where r is null.
function light(lane, r, kind) {
  for (const [elements, what] of [[lane.spans, lane.tokens], [lane.bars, lane.passes]]) {
    elements.forEach((element, i) => element.toggleAttribute("data-lit",
      what[i].r === r && !(what[i].begin >= race.time) && (!kind || what[i].kind === kind)));
  }
}

function drawLane(lane, prompt) {
  lane.bars = lane.passes.map(({kind, begin, end, r, says}) => make("i.of-" + kind, {
    title: `${says} ${ms(end - begin)}`,
    style: {left: share(begin / race.length), width: share((end - begin) / race.length)},
    pointerenter: () => light(lane, r), pointerleave: () => light(lane, null)}));
  lane.spans = lane.tokens.map(({kind, text}) => {
    const [, space, rest] = /^( ?)(.+)$/s.exec(text); // the space before a word has no colour
    const isDropped = kind === "rejected" || kind === "unexamined"; // not read out as text
    return make("span.token", {"aria-hidden": isDropped || null}, space, make("span.mark", rest));
  });
  lane.count = make("span.soft");
  lane.head = make("b.head");
  lane.flag = make("b.flag", {style: at(lane.end / race.length)}, ms(lane.end, 0));
  lane.text = make("p.written", {role: "group", "aria-label": lane.name, tabindex: 0, dir: "auto"},
    make("span.soft", plainly(prompt)), lane.spans);
  $("tracks").append(make("div.row.between", make("h3", lane.name), lane.count),
    make("div.strip", {"aria-hidden": "true"}, lane.bars, lane.head, lane.flag));
  $("texts").append(make("div.lane", make("span.soft", {"aria-hidden": "true"}, lane.name), lane.text));
}

const isSameText = run => run.plain.tokens.join() === run.figures.token_ids.join();

// Which paragraph of the page says why both texts are the same, or are not.
function whyOf(run) {
  const same = isSameText(run), {temperature} = run.settings;
  if (run.coupled) return same ? "why-noise" : "why-rounding";
  return temperature > 0 ? "why-chance" : same ? "why-likeliest" : "why-rounding";
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
    legendOf("draft", "rejected", "target"),
    make("li", "⏎ a line break"));
  $("speedup").className = "big" + (!run.speedup ? "" : run.speedup < 1 ? " wrong" : " right");
  put("speedup", make("b", run.speedup ? times(run.speedup) : "–"),
    run.speedup ? "as fast overall" + (isSameText(run) ? ", same text" : "") : "both are being timed");
  press("chance", Number(run.settings.temperature > 0));
  const alone = median(run.plain.seconds), checks = run.rounds.map(({seconds}) => seconds[1]);
  $("longer").textContent = run.speedup ? times(median(checks) / alone) : "…";
  race.says = run.speedup && "The large model alone needed "
    + `${plural(run.plain.tokens.length, "pass")}; with the small model’s guesses, ${checks.length}.`;
  for (const why of $("about-texts").children) { // all keep their places, one is in sight
    why.classList.toggle("room", !run.speedup || why.id !== whyOf(run));
  }
  $("guide").classList.toggle("room", Boolean(run.speedup) && !tellingItem(itemsOf(run)));
  showMoment(live && !still.matches ? 0 : race.length);
}

// How many tokens of a lane are written at this moment, of those that are in sight.
function showCount(lane) {
  const isWritten = span => !span.hidden && !span.matches(".ghost, .rejected, .unexamined");
  lane.count.textContent = plural(lane.spans.filter(isWritten).length, "token");
}

function showMoment(time, says) {
  race.time = clamp(time, 0, race.length);
  const now = race.time + 1e-12, fast = race.lanes[1];
  for (const lane of race.lanes) {
    lane.tokens.forEach(({kind, guessed, end}, i) => {
      const isGuess = now < end;
      lane.spans[i].className = `token ${kind}${isGuess ? " ghost" : ""}`;
      lane.spans[i].hidden = now < guessed || !isGuess && kind === "unexamined";
    });
    showCount(lane);
    lane.head.style.left = share(race.time / race.length);
    lane.flag.hidden = now < lane.end;
    lane.head.hidden = !lane.flag.hidden;
    const last = lane.spans.findLast(span => !span.hidden)?.lastChild; // is in the last of 6 lines
    if (last) lane.text.scrollTop = last.offsetTop + last.offsetHeight / 2 - .9 * lane.text.clientHeight;
    light(lane, null);
  }
  const isRunning = race.time > 0 && race.time < race.length;
  showPlay();
  press("guide", null);
  $("now").textContent = says || (!isRunning ? race.says
    : fast.passes.find(pass => pass.end > race.time)?.says || "The large model alone still writes.");
  $("clock").value = 1000 * race.time / race.length;
  $("clock").setAttribute("aria-valuetext", ms(race.time));
}

const slowness = () => Math.round(10 ** Number($("slow").value));

function showSlowness() {
  $("slow-now").textContent = slowness() + " ×";
  $("slow").setAttribute("aria-valuetext", slowness() + " times");
}

function showPlay() {
  $("play").textContent = race.playing ? "Pause" : race.time < race.length ? "Play" : "Play again";
}

function pause() {
  race.playing = false;
  cancelAnimationFrame(race.frame);
  showPlay();
}

// When the page opens, or a run has come: from zero.
const playFirst = () => !still.matches && race.lanes.length && play();

function play() {
  if (still.matches) { // no motion: the end at once, and steps
    showMoment(race.length);
    announce("Your system asks for no motion: this is the end of the race; take it in four steps.");
    return;
  }
  if (race.time >= race.length) showMoment(0);
  race.playing = true;
  showPlay();
  let last = performance.now();
  const tick = now => {
    showMoment(race.time + Math.min(now - last, 100) / 1e3 / slowness());
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
  const n = round.draft.length, guesses = (...range) => round.draft.slice(...range).map(quoted).join(" ");
  const why = run.settings.temperature === 0 || run.coupled ? "the large model chooses another word."
    : "the large model likes it less, and chance was against it.";
  const says = [
    `The small model guesses ${plural(n, "token")} in ${ms(round.seconds[0])}: ${guesses()}.`,
    `The large model checks ${n === 1 ? "it" : `all ${n}`} in one pass of ${ms(round.seconds[1])}. `
      + `Writing one token alone takes it ${ms(median(run.plain.seconds))}.`,
    `${i ? `${guesses(0, i)}: kept. ` : ""}${quoted(round.draft[i])} is rejected: ${why}`
      + (i + 1 < n ? ` ${guesses(i + 1)}, built on it: dropped.` : ""),
    `The same pass tells what the large model writes in its place: ${quoted(round.tokens[i])}. `
      + `One pass, ${plural(round.tokens.length, "token")}.`,
  ][step];
  const ends = lane.passes.filter(pass => pass.r === r).map(pass => pass.end);
  jump(ends.at([-3, -2, -1, -1][step]), says);
  light(lane, r, [null, null, "rejected", "correction"][step]);
  lane.tokens.forEach(({r: row, kind}, at) => {
    if (row !== r) return;
    if (kind === "unexamined") lane.spans[at].hidden = step === 3; // dropped, but still in sight
    if (kind === "correction") lane.spans[at].hidden = step < 3;
  });
  showCount(lane);
  press("guide", step);
  announce(says);
}

[...$("guide").querySelectorAll("button")].forEach((step, i) =>
  step.addEventListener("click", () => showStep(i)));
$("play").addEventListener("click", () => race.playing ? pause() : play());
$("clock").addEventListener("input", () => jump($("clock").value / 1000 * race.length));
$("slow").addEventListener("input", () => showSlowness());
opened.push(name => { if (name !== "race") pause(); });
showSlowness();
