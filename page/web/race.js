// ---------------------------------------------------------------- a pass, drawn
// The large model's weights stream in from memory, once, and tokens ride along: the last one of the
// text, and the guesses behind it. At the end stands what the pass brought.

function emptyTrain(kind, says) {
  const train = {read: make("i.read"), riders: make("span.riders"), gain: make("b.gain"), key: null};
  train.element = make("div.train." + kind, {"aria-hidden": "true"}, make("span.soft", says),
    make("span.weights", train.read, train.riders), train.gain);
  return train;
}

// Show a moment: riders [{text, kind}], progress from 0 to 1, and the gain, a text.
function moveTrain(train, riders, progress, gain) {
  const key = riders.map(({text, kind}) => text + kind).join("|");
  if (key !== train.key) {
    train.key = key;
    train.riders.replaceChildren(...riders.map(({text, kind}) =>
      make("span.mark." + kind, bare(text))));
  }
  train.read.style.width = share(progress);
  Object.assign(train.riders.style, {left: share(progress), transform: `translateX(-${share(progress)})`});
  train.gain.textContent = gain;
}

// ---------------------------------------------------------------- the race
// Both decoders on one clock. Each lane has passes {kind, begin, end, riders, gains} and tokens {kind,
// text, r, guessed, end}: a token shows as a guess from `guessed` on, as what became of it from `end`
// on. r is the round; gains, the sources of the tokens that a pass brought.

const race = {lanes: [], time: 0, length: 1, playing: false, frame: null};
const PASS_NAMES = {
  target: "a pass of the large model", draft: "the small model’s passes, one for each guess",
};

const bare = text => visible(text).replace("␣", "");
const lastWord = text => /\S*\s*$/u.exec(text)[0].slice(-12) || "·";

// The large model alone, in rounds without guesses.
const roundsAlone = ({tokens, shown, seconds}) => tokens.map((id, i) => ({draft: [], accepted: 0,
  tokens: [id], sources: ["target"], shown: [shown[i]], seconds: [0, seconds[i]]}));

// The riders of a pass: the last token of the text, and n guesses, each of the kind that kindAt says.
const ridersOf = (last, {draft}, n, kindAt) => [{text: last, kind: "last"},
  ...draft.slice(0, n).map((id, i) => ({text: words[id], kind: kindAt(i)}))];

function laneOf(kind, name, rounds, prompt) {
  const lane = {kind, name, passes: [], tokens: [], end: 0};
  const pass = (kind, seconds, riders, gains) =>
    lane.passes.push({kind, begin: lane.end, end: lane.end += seconds, riders, gains});
  const token = (kind, text, r, guessed = lane.end) =>
    lane.tokens.push({kind, text: plainly(text).replace(/\n/g, "⏎") || "·", r, guessed, end: lane.end});
  let last = lastWord(prompt);
  rounds.forEach((round, r) => {
    const n = round.draft.length, [draft, target] = round.seconds;
    const guessed = round.draft.map((_, i) => {
      pass("draft", draft / n, ridersOf(last, round, i + 1, () => "ghost"));
      return lane.end;
    });
    pass("target", n ? target : draft + target, ridersOf(last, round, n, () => "ghost"), round.sources);
    round.draft.forEach((id, i) =>
      token(kindOf(round, i), i < round.accepted ? round.shown[i] : words[id], r, guessed[i]));
    for (let i = round.accepted; i < round.tokens.length; i++) token(round.sources[i], round.shown[i], r);
    last = words[round.tokens.at(-1)];
  });
  return lane;
}

// A token: the space before a word has no colour.
function tokenSpan({kind, text}) {
  const [, space, rest] = /^( ?)(.*)$/s.exec(text);
  const isDropped = kind === "rejected" || kind === "unexamined"; // not read out as text
  return make("span.token." + kind, {"aria-hidden": isDropped || null}, space, make("span.mark", rest));
}

function drawLane(lane, run) {
  const of = x => share(x / race.length);
  lane.bars = lane.passes.map(({kind, begin, end}) =>
    make("i.of-" + kind, {style: {left: of(begin), width: of(end - begin)}}));
  lane.gains = lane.passes.filter(({gains}) => gains).map(({gains, begin, end}) => {
    const element = make("span", {style: {left: of(begin), width: of(end - begin)}},
      make("b", "+" + gains.length), gains.map(kind => make("i." + kind)).reverse());
    return {element, end};
  });
  lane.spans = lane.tokens.map(tokenSpan);
  // a rejected guess stands above the token that took its place
  const body = [];
  lane.tokens.forEach(({kind}, i) => {
    if (kind === "rejected") return;
    const at = lane.tokens.findIndex(token => token.kind === "rejected" && token.r === lane.tokens[i].r);
    body.push(kind === "correction" && at >= 0
      ? make("span.over", lane.spans[at], lane.spans[i]) : lane.spans[i]);
  });
  lane.train = emptyTrain(lane.kind, "the large model’s weights, from memory");
  lane.count = make("span.soft");
  lane.head = make("b.head");
  lane.flag = make("b.flag", {style: at(lane.end / race.length)}, ms(lane.end, 0));
  lane.text = make("p.written", {role: "group", "aria-label": lane.name, tabindex: 0, dir: "auto"},
    make("span.soft", plainly(run.prompt)), body);
  $("lanes").append(make("div.lane." + lane.kind,
    make("div.row.between", make("h2", lane.name), lane.count),
    make("div.laid", lane.train.element, make("div",
      make("div.strip", {"aria-hidden": "true"}, make("div.gains", lane.gains.map(({element}) => element)),
        lane.bars, lane.head, lane.flag), lane.text))));
}

// The headline is the median of all turns, seen or not.
function showHeadline(run) {
  const turns = turnsOf(run), all = turns.map(({speedup}) => speedup);
  const isMeasured = all.length > 2;
  put("speedup", make("b", isMeasured ? times(median(all)) : "…"), make("span", isMeasured
    ? `as fast${isSameText(run) ? ", same text" : ""}; median of ${all.length} turns `
      + `(${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)})`
    : "both decoders are taking turns"));
  put("longer", isMeasured ? times(1 + run.settings.K * medianOf(turns, "extra")) : "…");
}

// Lay a run out; a step of its round that is in sight, or a moment of its race, stays.
function showRace(run) {
  race.lanes = [laneOf("alone", "Large model alone", roundsAlone(run.alone), run.prompt),
    laneOf("together", "Large model with small model", run.rounds, run.prompt)];
  race.length = Math.max(...race.lanes.map(lane => lane.end)) || 1;
  put("lanes");
  for (const lane of race.lanes) drawLane(lane, run);
  put("pass-legend",
    Object.keys(PASS_NAMES).map(kind => make("li", swatch("of-" + kind), PASS_NAMES[kind])),
    legendOf("draft", "rejected", "correction", "bonus", "target"));
  showHeadline(run);
  press("chance", Number(isByChance(run)));
  $("why-noise").hidden = !run.settings.coupled;
  $("why-rounding").hidden = isSameText(run) || isByChance(run) && !run.settings.coupled;
}

function showMoment(time) {
  race.time = clamp(time, 0, race.length);
  const now = race.time + 1e-12;
  for (const lane of race.lanes) {
    let written = 0;
    lane.tokens.forEach(({kind, guessed, end}, i) => {
      const isGuess = now < end, isOwn = kind !== "rejected" && kind !== "unexamined";
      lane.spans[i].className = `token ${kind}${isGuess ? " ghost" : ""}`;
      lane.spans[i].hidden = now < guessed || !isGuess && kind === "unexamined";
      written += isOwn && !isGuess;
    });
    const done = lane.gains.filter(({element, end}) => !element.toggleAttribute("data-later", end > now));
    lane.gains.forEach(({element}) => element.toggleAttribute("data-last", element === done.at(-1)?.element));
    lane.count.textContent = `${plural(written, "token")}, ${plural(done.length, "pass")}`;
    lane.head.style.left = share(race.time / race.length);
    lane.flag.hidden = now < lane.end;
    lane.head.hidden = !lane.flag.hidden;
    const {kind, begin, end, riders} = lane.passes.find(({end}) => end > now) || lane.passes.at(-1);
    const progress = kind === "target" ? (now - begin) / (end - begin) : 0;
    moveTrain(lane.train, riders, progress, done.at(-1)?.element.firstChild.textContent || "");
  }
  showPlay();
  $("clock").value = 1000 * race.time / race.length;
  $("clock").setAttribute("aria-valuetext", ms(race.time));
}

const slowness = () => Math.round(10 ** Number($("slow").value));

function showSlowness() {
  $("slow-now").textContent = slowness() + " ×";
  $("slow").setAttribute("aria-valuetext", slowness() + " times");
}

function showPlay() {
  $("play").textContent = race.playing ? "Pause" : race.time === 0 ? "Race"
    : race.time < race.length ? "Go on" : "Race again";
}

function pause() {
  race.playing = false;
  cancelAnimationFrame(race.frame);
  showPlay();
}

function play() {
  showPane(null);
  if (still.matches) { // no motion: the end at once
    showMoment(race.length);
    announce("Your system asks for no motion: this is the end of the race.");
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

// ---------------------------------------------------------------- one round in four steps

const one = {step: 0, timer: null, frame: null,
  train: emptyTrain("together", "With guesses: the weights of the large model stream in from memory, once for all tokens"),
  alone: emptyTrain("alone", "Alone: the same weights stream in for one token")};
$("round-train").append(one.train.element, one.alone.element);

// The round that is told: that of the telling rejection, else the first with guesses.
function toldRound(run) {
  const item = tellingItem(itemsOf(run));
  const r = item ? item.r : Math.max(0, run.rounds.findIndex(({draft}) => draft.length));
  return {r, round: run.rounds[r]};
}

// Show a step of the round, or the race: its button is pressed, and the next one stands out.
function showPane(step) {
  clearTimeout(one.timer);
  $("one-round").hidden = step === null;
  $("lanes-pane").hidden = step !== null;
  press("guide", step);
  [...$("guide").children].forEach((element, i) =>
    element.classList.toggle("primary", i === (step === null ? 4 : step + 1)));
}

// What stands under a guess: what the large model says to it.
function sayOf(round, i, step, isChance) {
  const kind = kindOf(round, i), isDone = step >= 2;
  if (step < 1 || kind === "unexamined") return isDone ? "dropped" : "";
  if (!isChance) return bare(words[i < round.accepted ? round.draft[i] : round.tokens[i]]);
  const ratio = Math.min(1, round.p[i] / round.q[i]), u = round.coins[i] ?? null;
  return u === null ? "" : ratio.toFixed(2) + (isDone ? `, ${u.toFixed(2)}` : "");
}

function showLine(run, r, round, step) {
  const isChance = isByChance(run) && !run.settings.coupled, before = run.rounds.slice(0, r);
  const written = plainly(run.prompt + before.flatMap(({shown}) => shown).join("")).replace(/\n/g, "⏎");
  const tail = written.length > 34 ? "… " + written.slice(-30).replace(/^\S*\s/, "") : written;
  const told = !step ? "" : isChance ? "p/q" + (step > 1 ? ", roll" : "") : "large model";
  const columns = range(Math.max(round.draft.length, round.tokens.length)).map(i => {
    const isDraft = i < round.draft.length, kind = isDraft ? kindOf(round, i) : round.sources[i];
    const guess = isDraft && make(`span.mark.${step >= 2 ? kind : "ghost"}`, bare(words[round.draft[i]]));
    const own = i === round.accepted && i < round.tokens.length && step >= 3;
    const isIn = own || kind === "draft" && step >= 2;
    if (!isDraft && !own) return null;
    return make("span.column", make("span.guess", guess),
      make("span.answer" + (kind === "unexamined" ? ".dropped" : ""), isDraft && sayOf(round, i, step, isChance)),
      make("span.slot", isIn && make("span.mark." + round.sources[i], bare(round.shown[i]))));
  });
  put("line", make("span.column.before", make("span.slot", tail)), make("span.column.labels",
    make("small.guess", "small model"), make("small.answer", told), make("span.slot")), columns);
}

// Words for a step: [heading, text].
function stepWords(run, round, step) {
  const n = round.draft.length, a = round.accepted, all = a === round.examined;
  const turns = turnsOf(run), extra = turns.length > 2 && 1 + n * medianOf(turns, "extra");
  const own = a < round.tokens.length && quoted(round.tokens[a]);
  const why = all ? "" : !isByChance(run) ? `Here the large model says ${own}, not ${quoted(round.draft[a])}.`
    : run.settings.coupled ? "Under the same noise, the large model chooses another."
    : "The large model gives it lower odds than the small one did, and the roll fell above p/q.";
  return [
    ["What happens next?", `The small model has guessed ${plural(n, "token")}, which is quick. `
      + "Will the large model write them, too?"],
    [`One pass checks all ${n}`, `The weights stream in once, and ${n + 1} tokens ride along: the last one written `
      + `and the ${plural(n, "guess")}. At each, the large model says what should follow`
      + (isByChance(run) ? ", and how likely it is: a guess stays with probability p/q" : "")
      + (extra ? `. The pass takes ${times(extra)} as long as for one token.` : ".")],
    all ? ["All of them stay", "Nothing is rejected in this round."]
      : [`${a ? `${plural(a, "guess")} stay${a === 1 ? "s" : ""}` : "None stays"}, the next is rejected`,
        `${why}${a + 1 < n ? ` What was guessed behind it is dropped.` : ""}`],
    [`One pass, ${plural(round.tokens.length, "token")}`, !own ? "The text ends here."
      : all ? `The same pass gives one more: ${own}. Then the next round begins.`
      : `The same pass has already said what belongs there: ${own}. Then the next round begins.`],
  ][step];
}

function showStep(step, isFirst) {
  const run = state.base, {r, round} = toldRound(run);
  if (!round || !round.draft.length) return play(); // nothing was guessed in the whole text
  pause();
  showPane(one.step = step);
  const [heading, text] = stepWords(run, round, step);
  put("question", heading);
  put("says", text);
  const before = run.rounds.slice(0, r).flatMap(({tokens}) => tokens);
  const last = before.length ? words[before.at(-1)] : lastWord(run.prompt);
  const riders = ridersOf(last, round, round.draft.length, i => step < 2 ? "ghost" : kindOf(round, i));
  const gain = step > 2 ? "+" + round.tokens.length : "";
  const longer = 1 + round.draft.length * medianOf(turnsOf(run), "extra");
  cancelAnimationFrame(one.frame);
  const begin = performance.now();
  const tick = now => { // in the second step, the passes take their time
    const progress = !step ? 0 : step > 1 || still.matches ? 1 : Math.min(1, (now - begin) / 1800);
    showLine(run, r, round, progress < 1 ? 0 : step);
    moveTrain(one.train, riders, progress, gain);
    moveTrain(one.alone, riders.slice(0, 1), Math.min(1, progress * longer), step > 2 ? "+1" : "");
    if (step && progress < 1) one.frame = requestAnimationFrame(tick);
  };
  tick(begin);
  if (!isFirst) announce(`${heading}. ${text}`);
  if (step === 3 && !isFirst && !still.matches) one.timer = setTimeout(play, 3500);
}

[...$("guide").children].slice(0, 4).forEach((element, i) =>
  element.addEventListener("click", () => { showMoment(0); showStep(i); }));
$("play").addEventListener("click", () => race.playing ? pause() : play());
$("clock").addEventListener("input", () => { pause(); showMoment($("clock").value / 1000 * race.length); });
$("slow").addEventListener("input", () => showSlowness());
showSlowness();
