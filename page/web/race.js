// ---------------------------------------------------------------- a pass, drawn
// The large model's weights stream in from memory, once, and tokens ride along: the last one of the
// text, and the guesses behind it. At the end stands what the pass brought.

// part: of the row that it fills
function weightsBar(part = 1) {
  const bar = {read: make("i.read"), riders: make("span.riders"), key: null};
  bar.element = make("span.weights", {style: width(part)}, bar.read, bar.riders);
  return bar;
}
const trainOf = (kind, says, bars, gain) => make("div.train." + kind, {"aria-hidden": "true"},
  make("span.soft", says), make("span.bars", bars), gain);

// Show a moment of a bar: riders [{text, kind}], and progress from 0 to 1.
function moveBar(bar, riders, progress) {
  const key = riders.map(({text, kind}) => text + kind).join("|");
  if (key !== bar.key) {
    bar.key = key;
    bar.riders.replaceChildren(...riders.map(({text, kind}) =>
      make("span.mark." + kind, bare(text))));
  }
  bar.read.style.width = share(progress);
  bar.riders.style.transform = `translateX(calc(${clamp(progress, 0, 1)} * (100cqw + .5rem) - ${share(progress)}))`;
}

// ---------------------------------------------------------------- the race
// Both decoders on one clock. Each lane has passes {kind, begin, end, riders, gains} and tokens {kind,
// text, r, guessed, end}: a token shows as a guess from `guessed` on, as what became of it from `end`
// on. r is the round; gains, the sources of the tokens that a pass brought.

const race = {lanes: [], time: 0, length: 1, playing: false, frame: null};
const PASS_NAMES = {
  target: "pass of the large model", draft: "small model, one guess each",
};

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
  // a rejected guess stands in its place, later above the token that took it
  const body = lane.tokens.map(({kind, r}, i) => {
    const own = lane.tokens.findIndex(token => token.kind === "correction" && token.r === r);
    return kind === "rejected" ? make("span.over", lane.spans[i], lane.spans[own])
      : kind !== "correction" && lane.spans[i];
  });
  lane.bar = weightsBar();
  lane.gain = make("b.gain");
  lane.count = make("span.soft");
  lane.head = make("b.head");
  lane.flag = make("b.flag", {style: at(lane.end / race.length)}, ms(lane.end, 0));
  lane.text = make("p.written", {role: "group", "aria-label": lane.name, tabindex: 0, dir: "auto"},
    make("span.soft", plainly(run.prompt)), given(body));
  $("lanes").append(make("div.lane." + lane.kind,
    make("div.row.between", make("h2", lane.name), lane.count),
    make("div.laid", trainOf(lane.kind, "the large model’s numbers, from memory", lane.bar.element, lane.gain), make("div",
      make("div.strip", {"aria-hidden": "true"}, make("div.gains", lane.gains.map(({element}) => element)),
        lane.bars, lane.head, lane.flag), lane.text))));
}

// Drawn by chance, the two texts differ.
const isOtherText = run => isByChance(run) && !run.settings.coupled;

// The headline is the median of all turns, seen or not.
function showHeadline(run) {
  const turns = turnsOf(run), all = turns.map(({speedup}) => speedup);
  const isMeasured = all.length > 2;
  put("speedup", make("b", isMeasured ? times(median(all)) : "…"), make("span", isMeasured
    ? `as fast${isOtherText(run) ? ", same odds" : isSameText(run) ? ", same text" : ""}; middle of `
      + `${all.length} races (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)})`
    : "both are taking turns"));
  put("longer", isMeasured ? times(1 + run.settings.K * medianOf(turns, "extra")) : "…");
  put("cheap", isMeasured ? medianOf(turns, "c").toFixed(2) : "…");
  put("same", isOtherText(run) ? "Same odds for every word, sooner." : "Same text, sooner.");
  put("compare", isOtherText(run) ? "Each side rolls its own dice, so the two texts differ: every word has the same odds in both."
    : !isSameText(run) ? "The texts part where two words are almost equally likely: a pass over several tokens rounds differently."
    : "Both write the same text, word for word" + (run.settings.coupled ? ": every word is chosen under the same noise." : "."));
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
      if (kind === "rejected") lane.spans[i].parentElement.classList.toggle("open", isGuess && now >= guessed);
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
    moveBar(lane.bar, riders, progress);
    lane.gain.textContent = done.at(-1)?.element.firstChild.textContent || "";
  }
  showPlay();
  $("clock").value = 1000 * race.time / race.length;
  $("clock").setAttribute("aria-valuetext", ms(race.time));
}

const slowness = () => Math.round(10 ** Number($("slow").value));
const showSlowness = () => {
  $("slow-now").textContent = slowness() + " ×";
  $("slow").setAttribute("aria-valuetext", slowness() + " times");
};

function showPlay() {
  $("play").textContent = race.playing ? "Pause" : race.time === 0 ? "Race"
    : race.time < race.length ? "Go on" : "Again";
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

// wait: milliseconds until the race; bars: a pass with guesses, then those alone in the same time
const one = {step: 0, timer: null, frame: null, wait: 12000, bars: []};

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
  if (isDone) return kind === "draft" ? "stays" : "rejected";
  return i in round.coins ? Math.round(100 * Math.min(1, round.p[i] / round.q[i])) + " %" : "";
}

function showLine(run, r, round, step) {
  const isChance = isOtherText(run), before = run.rounds.slice(0, r);
  const written = plainly(run.prompt + before.flatMap(({shown}) => shown).join("")).replace(/\n/g, "⏎");
  const tail = written.length > 34 ? "… " + written.slice(-30).replace(/^\S*\s/, "") : written;
  const told = !step ? "" : isChance ? step > 1 ? "the dice say" : "stays in" : "large model";
  const columns = range(Math.max(round.draft.length, round.tokens.length)).map(i => {
    const isDraft = i < round.draft.length, kind = isDraft ? kindOf(round, i) : round.sources[i];
    const guess = isDraft && make(`span.mark.${step >= 2 ? kind : "ghost"}`, bare(words[round.draft[i]]));
    const own = i === round.accepted && i < round.tokens.length && step >= 3;
    const isIn = own || kind === "draft" && step >= 2;
    return (isDraft || own) && make("span.column", make("span.guess", guess),
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
    : `The small model says ${quoted(round.draft[a])} in ${percent(round.q[a])} of all cases, the large one `
      + `only in ${percent(round.p[a])}. So it may not always stay, and the dice said no.`;
  return [
    ["What happens next?", `The small model has guessed ${plural(n, "token")}, which is quick: the grey blocks. `
      + "Will the large model write them, too?"],
    [`One pass checks all ${n}`, `All numbers of the large model come from memory once, for ${n + 1} tokens. After each, it says `
      + (isOtherText(run) ? "how likely the next guess is. Where the small model finds it likelier, the guess stays only in some cases"
        : "what should follow") + (extra ? `. The pass takes ${times(extra)} as long as for one token.` : ".")],
    all ? ["All of them stay", "Nothing is rejected in this round."]
      : [`${a ? `${plural(a, "guess")} stay${a === 1 ? "s" : ""}` : "None stays"}, the next is rejected`,
        `${why}${a + 1 < n ? ` What was guessed behind it is dropped.` : ""}`],
    [`One pass, ${plural(round.tokens.length, "token")}`, !own ? "The text ends here."
      : all ? `The same pass gives one more: ${own}. Then the next round begins: press Race, or wait ${one.wait / 1e3} seconds.`
      : `The same pass has already said what belongs there: ${own}. Then the next round begins: press Race, or wait ${one.wait / 1e3} seconds.`],
  ][step];
}

// The round on a line of time: the guesses and their pass; below, passes of the large model alone.
function drawRound(run, round) {
  const turns = turnsOf(run), n = round.draft.length, drafting = n * medianOf(turns, "c");
  const length = drafting + 1 + n * medianOf(turns, "extra"), gains = [make("b.gain"), make("b.gain")];
  const whole = Math.ceil(length); // the last pass alone is under way at the end
  one.bars = [weightsBar((length - drafting) / whole), ...range(whole).map(() => weightsBar(1 / whole))];
  const [bar, ...alone] = one.bars.map(({element}) => element);
  const guess = () => make("i.of-draft", {style: width(drafting / n / whole)});
  put("round-train", trainOf("together", [swatch("of-draft"), "the small model guesses; then ", swatch("of-target"),
    "all numbers of the large model come from memory, once for all tokens"], [round.draft.map(guess), bar], gains[0]),
  trainOf("alone", ["Alone, meanwhile: ", swatch("of-target"), "all the numbers for one token; the next cannot start before it is known"],
    alone, gains[1]));
  return {drafting, length, gains};
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
  const {drafting, length, gains} = drawRound(run, round);
  cancelAnimationFrame(one.frame);
  const begin = performance.now();
  const tick = now => { // in the second step, the passes take their time
    const progress = !step ? 0 : step > 1 || still.matches ? 1 : Math.min(1, (now - begin) / 1800);
    const time = drafting + progress * (length - drafting); // in passes of the large model alone
    showLine(run, r, round, progress < 1 ? 0 : step);
    one.bars.forEach((bar, i) => moveBar(bar, !i ? riders : time < i - 1 ? [{text: "?", kind: "ghost"}]
      : [{text: i < 2 ? last : words[round.tokens[i - 2]] ?? "…", kind: "last"}],
    !i ? progress : clamp(time - i + 1, 0, 1)));
    gains[0].textContent = step > 2 ? "+" + round.tokens.length : "";
    gains[1].textContent = time < 1 ? "" : "+" + Math.floor(time);
    if (step && progress < 1) one.frame = requestAnimationFrame(tick);
  };
  tick(begin);
  if (!isFirst) announce(`${heading}. ${text}`);
  if (step === 3 && !isFirst && !still.matches) one.timer = setTimeout(play, one.wait);
}

[...$("guide").children].slice(0, 4).forEach((element, i) =>
  element.addEventListener("click", () => { showMoment(0); showStep(i); }));
$("play").addEventListener("click", () => race.playing ? pause() : play());
$("clock").addEventListener("input", () => { pause(); showMoment($("clock").value / 1000 * race.length); });
$("slow").addEventListener("input", showSlowness);
showSlowness();
