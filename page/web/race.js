// ---------------------------------------------------------------- a pass, drawn
// The weights of the large model are fetched from memory, piece by piece: the first row. Each piece is
// then used for every word of the pass, a row each: the last one of the text, and the guesses.

// part: of the line of time that it fills; rows: for how many words there is room
function weightsBar(says, part = 1, rows = 1) {
  const riders = make("span.riders"), element = make("span.weights",
    {style: {...width(part), minHeight: `calc(${rows + 1} * var(--row))`}}, make("span.memory", make("span", says)), riders);
  element.style.setProperty("--rows", rows);
  return {riders, progress: null, element};
}
const trainOf = (kind, says, bars, gain) => make("div.train." + kind, {"aria-hidden": "true"},
  make("div", make("span.soft", says), gain), make("span.bars", bars));

// Show a moment of a bar: riders [{text, kind}], and progress from 0 to 1.
function moveBar(bar, riders, progress) {
  bar.riders.replaceChildren(...riders.map(({text, kind}) => make("span", make("span.mark." + kind, bare(text)))));
  [...bar.riders.children].forEach((row, i) => row.style.setProperty("--above", i));
  bar.progress = progress;
  bar.element.style.setProperty("--read", share(progress));
}

// ---------------------------------------------------------------- the race
// Both decoders on one clock. Each lane has passes {kind, begin, end, riders, gains} and tokens {kind,
// text, r, guessed, end}: a token shows as a guess from `guessed` on, as what became of it from `end`
// on. r is the round; gains, the sources of the tokens that a pass brought.

const race = {lanes: [], time: 0, length: 1, playing: false, frame: null};

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
  lane.bar = weightsBar("", 1, lane.kind === "alone" ? 1 : mostWords(run));
  lane.count = make("span.soft");
  lane.head = make("b.head");
  lane.flag = make("b.flag", {style: {left: share(lane.end / race.length)}}, ms(lane.end, 0));
  lane.text = make("p.written", {role: "group", "aria-label": lane.name, tabindex: 0, dir: "auto"},
    make("span.soft", plainly(run.prompt)), given(body));
  $("lanes").append(make("div.lane." + lane.kind,
    make("div.row.between", make("h2", lane.name), lane.count),
    make("div.laid", trainOf(lane.kind, `all weights, once for ${lane.kind === "alone" ? "one word" : `up to ${plural(mostWords(run), "word")}`}`, lane.bar.element), make("div",
      make("div.strip", {"aria-hidden": "true"}, make("div.gains", lane.gains.map(({element}) => element)),
        lane.bars, lane.head, lane.flag), lane.text))));
}

// Drawn by chance, the two texts differ.
const isOtherText = run => isByChance(run) && !run.settings.coupled;

// The headline is the median of all turns, seen or not.
function showHeadline(run) {
  const turns = turnsOf(run), all = turns.map(({speedup}) => speedup), n = mostWords(run), extra = medianOf(turns, "extra");
  const isMeasured = all.length > 2 || !asking, isSlower = isMeasured && median(all) < 1;
  put("speedup", make("b", isMeasured ? times(median(all)) : "…"), " ", make("span", isMeasured
    ? `as fast (${all.length > 2 ? "whole text" : "one turn"})${isOtherText(run) ? ", same odds" : isSameText(run) ? ", same words" : ""}` : "both are taking turns"));
  $("race").style.setProperty("--extra", clamp(extra, .01, 1));
  put("why", make("b", isSlower ? "Why should it be faster? " : "Why is it faster? "), `Every word needs all ${rounded(run.parameters[0] / 1e6, 2)} million weights (numbers); `
    + `fetching them from memory takes most of the time. With guesses, ${n} words are there at once; alone, the next is not known yet. So the weights are `,
  make("b", `fetched once and used ${n} times`), `: a pass over ${n} words takes `,
  make("b", isMeasured ? times(1 + (n - 1) * extra) : "…"), ` as long as over one, not ${n}\u00a0×.`);
  if (n === 1) put("why", "Nothing was guessed in this text: the large model wrote it alone.");
  put("same", `${isOtherText(run) ? "Same odds for every word" : isSameText(run) ? "Same text" : "Same text, up to rounding"}${n === 1 ? "" : isSlower ? ", later" : ", sooner"}.`);
  put("compare", all.length > 2 && `Middle of ${all.length} races (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)}). `, isOtherText(run) ? isSameText(run) ? "Drawn by chance, and yet the same words." : "Different dice, so different words, with the same odds."
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
    lane.count.textContent = `${plural(written, "word")}, ${plural(done.length, "pass")}`;
    lane.head.style.left = share(race.time / race.length);
    lane.flag.hidden = now < lane.end;
    lane.head.hidden = !lane.flag.hidden;
    const {kind, begin, end, riders} = lane.passes.find(({end}) => end > now) || lane.passes.at(-1);
    const progress = kind === "target" ? (now - begin) / (end - begin) : 0;
    moveBar(lane.bar, riders, progress);
  }
  showPlay();
  $("clock").value = 1000 * race.time / race.length;
  $("clock").setAttribute("aria-valuetext", ms(race.time));
}

const slowness = () => Math.round(10 ** Number($("slow").value));
const showSlowness = () => {
  $("slow-now").textContent = slowness();
  $("slow").setAttribute("aria-valuetext", slowness() + " times slower than real");
};

function showPlay() {
  $("play").textContent = race.playing ? "Pause" : race.time === 0 ? "Race"
    : race.time < race.length ? "Go on" : "Again";
}

function pause() {
  race.playing = false;
  cancelAnimationFrame(race.frame);
  clearTimeout(one.timer);
  showPlay();
}

function play() {
  pause();
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

// step: that is shown, null in the race; wait: milliseconds until the race begins by itself; bars: a pass with guesses, then those alone in the same time
const one = {step: 0, frame: null, timer: null, wait: 10000, bars: []};

const STEP_SECONDS = [2, 3]; // that the guesses and their pass take on the page
const stayIn = ratio => Number((100 * ratio).toFixed(ratio > .99 ? 1 : 0)); // of 100

// The round that is told: that of the telling rejection, else the first with guesses.
function toldRound(run) {
  const item = tellingItem(itemsOf(run));
  const r = item ? item.r : Math.max(0, run.rounds.findIndex(({draft}) => draft.length));
  return {r, round: run.rounds[r]};
}

// Show a step of the round, or the race: its button is pressed, and the next one stands out.
function showPane(step) {
  one.step = step;
  $("one-round").classList.toggle("room", step === null);
  $("lanes-pane").classList.toggle("room", step !== null);
  press("guide", step);
  [...$("guide").children].forEach((element, i) =>
    element.classList.toggle("primary", i === (step === null ? 4 : step + 1)));
}

// What the large model says behind the i-th word of a pass: of the guess there, or its own word.
function answerOf(run, round, i, step, behind) {
  const isGuess = i < round.draft.length, kind = kindOf(round, i), isDone = step >= 2;
  if (step < 1) return "";
  if (i > round.accepted || isGuess && kind === "unexamined") return ["→ ", make(isDone ? "s" : "span", "…"), make("small.soft", isDone ? " discarded" : " it answers here, too")];
  const isChance = isOtherText(run), isOwn = isDone ? i === round.accepted && (!isChance || step > 2) : !isChance;
  const own = isOwn && i < round.tokens.length
    && ["→ ", !isDone && make("small.soft", `after “${bare(behind)}” it says `), make("span.mark." + (isDone ? round.sources[i] : "answer"), bare(words[round.tokens[i]]))];
  const ratio = isGuess && Math.min(1, round.p[i] / round.q[i]);
  return [isGuess && (isDone || isChance) && [make("small", "guess: "), make(`span.mark.${isDone ? kind : "ghost"}`, bare(words[round.draft[i]]))],
    isGuess && isChance && i in round.coins && make("small", ratio === 1 ? " always stays" : ` stays in ${stayIn(ratio)} of 100`),
    isGuess && isDone && make("b", kind === "draft" ? " ✓" : " ✗ "), own];
}

// The end of the text before the i-th place of the r-th round.
function tailOf(run, r, i = 0) {
  const shown = [...run.rounds.slice(0, r).flatMap(({shown}) => shown), ...run.rounds[r].shown.slice(0, i)];
  const written = plainly(run.prompt + shown.join("")).replace(/\n/g, "⏎");
  return written.length > 50 ? "… " + written.slice(-45).replace(/^\S*\s/, "") : written;
}

function showLine(run, r, round, step, guessed) {
  const mark = (kind, text) => [/^ /.test(text) && " ", make("span.mark." + kind, bare(text))];
  const guesses = round.draft.map((id, i) => mark(i >= guessed ? "room" : step < 2 ? "ghost" : kindOf(round, i), words[id]));
  const kept = round.accepted, own = round.tokens.slice(kept).map((_, i) => mark(round.sources[kept + i], round.shown[kept + i]));
  const rejected = kept < round.examined && guesses[kept][1]; // it goes above its replacement
  put("line", make("span.soft", tailOf(run, r)), step < 3 || !own.length ? guesses
    : [guesses.slice(0, kept), own[0][0], make("span.over", rejected, own[0][1])]);
}

// Words for a step: [heading, text].
function stepWords(run, round, step, drafting, checking) {
  const n = round.draft.length, a = round.accepted, all = a === round.examined, isChance = isOtherText(run);
  const stay = a ? `${plural(a, "guess")} stay${a === 1 ? "s" : ""}` : "None stays";
  const [large, small] = run.parameters.map(n => n / 1e6); // look-up has none
  const costs = [drafting, checking].map(cost => cost.toFixed(2)), length = sum(costs.map(Number));
  const own = a < round.tokens.length && quoted(round.tokens[a]);
  const why = all ? "" : !isByChance(run) ? `Here the large model says ${own}, not ${quoted(round.draft[a])}.`
    : run.settings.coupled ? "Under the same noise, the large model chooses another."
    : round.support ? `The guesses up to this one stay together in ${stayIn(round.support[a])} of 100, and the dice said no.`
    : `The small model says ${quoted(round.draft[a])} in ${percent(round.q[a])} of all cases, the large one `
      + `only in ${percent(round.p[a])}. So it may stay only in ${stayIn(round.p[a] / round.q[a])} of 100, and the dice said no.`;
  const gain = `The time: ${costs[0]} (guessing) + ${costs[1]} (checking) = ${length.toFixed(2)} passes, instead of `
    + `${round.tokens.length} alone: ${round.tokens.length}\u00a0/\u00a0${length.toFixed(2)} = ${times(round.tokens.length / length)} as fast in this round.`;
  return [
    ["What happens next?", `The small model quickly guesses ${plural(n, "word")}: the grey blocks. `
      + (small ? `It is ${small < large ? `${rounded(large / small, 2)} times` : "not"} smaller (${rounded(small, 2)} against ${rounded(large, 2)} million weights): a guess costs ${Math.round(100 * drafting / n)}\u00a0% of a pass. ` : "")
      + "Will the large model write them, too?"],
    [`One pass checks ${n === 1 ? "it" : `all ${n}`}`, `${n + 1} words go through it at once: the last of the text, and ${plural(n, "guess")}. After each, the large model says `
      + (isChance ? `how likely it finds the next guess; ${round.support ? "a die decides how many of them stay" : "where it finds it less likely than the small model, a die decides whether it stays"}.`
        : "which word comes next: a guess stays if it is the same.") + " After the first one that does not stay, nothing counts."],
    all ? [a < n ? `${stay}: there the text ends` : n === 1 ? "It stays" : "All of them stay", "Nothing is rejected in this round."]
      : [`${stay}, the ${a ? "next" : "first"} is rejected`, `${why}${a + 1 < n ? " What stands behind it was read after a rejected word: it is discarded." : ""}`],
    [`One pass, ${plural(round.tokens.length, "word")}`, !own ? "The text ends here."
      : `${all ? `Behind the last guess, the same pass says its own next word, for free: ${own}.`
        : isChance ? `In its place comes ${own}, from the same pass: drawn from what the small model says too seldom.`
        : `The same pass has already said what belongs there: ${own}.`} ${gain} ${still.matches ? "Now press Race." : `The race starts in ${one.wait / 1e3} seconds, or press Race.`} `],
  ][step];
}

// The round on a line of time: the guesses and their pass; below, passes of the large model alone.
// left: how many words the large model alone still writes.
function drawRound(run, round, left) {
  const turns = turnsOf(run), n = round.draft.length, drafting = n * medianOf(turns, "c");
  const length = drafting + 1 + n * medianOf(turns, "extra"), gains = [make("b.gain"), make("b.gain")];
  const whole = Math.ceil(length); // the last pass alone is under way at the end
  one.bars = [weightsBar(["all weights, once", make("small", `, for ${n + 1} words`)], (length - drafting) / whole, n + 1),
    ...range(Math.min(whole, left)).map(i => weightsBar([i ? "all weights again" : "all weights", make("small", ", for one word")], 1 / whole))];
  const [bar, ...alone] = one.bars.map(({element}) => element), answers = make("span.answers");
  const guesses = round.draft.map(() => make("i.of-draft", {style: width(drafting / n / whole)}));
  put("round-train", trainOf("together", [make("b", "With guesses: "), swatch("of-draft"), "the small model guesses, then ", swatch("of-target"),
    `one pass: the weights come in portions (wide); each is calculated with for all ${n + 1} words (thin)`], [guesses, bar, answers], gains[0]),
  trainOf("alone", [make("b", "Alone, meanwhile: "), swatch("of-target"), "the same portions again for each word: the next begins when this one is known"], alone, gains[1]));
  return {drafting, length, gains, answers, guesses};
}

function showStep(step, isFirst) {
  const run = state.base, {r, round} = toldRound(run);
  if (!round || !round.draft.length) return play(); // nothing was guessed in the whole text
  pause();
  showPane(step);
  const before = run.rounds.slice(0, r).flatMap(({tokens}) => tokens), left = Math.max(1, run.alone.tokens.length - before.length);
  const n = round.draft.length, {drafting, length, gains, answers, guesses} = drawRound(run, round, left);
  const [heading, text] = stepWords(run, round, step, drafting, length - drafting);
  put("question", heading);
  put("says", text, isOtherText(run) && step === 3 && make("a", {href: "#decision"}, "See what is lacking."));
  const last = before.length ? words[before.at(-1)] : lastWord(run.prompt);
  cancelAnimationFrame(one.frame);
  const begin = performance.now();
  const tick = now => { // guessing, then the passes take their time
    const part = step > 1 || still.matches ? 1 : clamp((now - begin) / 1e3 / STEP_SECONDS[step], 0, 1);
    const progress = step ? part : 0, guessed = step ? n : Math.floor(part * n);
    const time = step ? drafting + part * (length - drafting) : part * drafting; // in passes of the large model alone
    const shown = part < 1 ? 0 : step;
    const riders = ridersOf(last, round, n, i => i >= guessed ? "room" : step < 2 ? "ghost" : kindOf(round, i));
    guesses.forEach((element, i) => element.classList.toggle("room", i >= guessed));
    showLine(run, r, round, shown, guessed);
    answers.replaceChildren(...range(n + 1).map(i => make("span", answerOf(run, round, i, shown, riders[i].text))));
    one.bars.forEach((bar, i) => moveBar(bar, !i ? riders : time < i - 1 ? [{text: "?", kind: "ghost"}]
      : [{text: i < 2 ? last : words[round.tokens[i - 2]] ?? "…", kind: "last"}],
    !i ? progress : clamp(time - i + 1, 0, 1)));
    gains[0].textContent = step > 2 ? "+" + plural(round.tokens.length, "word") : "";
    gains[1].textContent = time < 1 ? "" : "+" + plural(Math.min(Math.floor(time), left), "word");
    if (part < 1) one.frame = requestAnimationFrame(tick);
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
$("pass-legend").append(...legendOf("draft", "rejected", "correction", "bonus", "target"));
showSlowness();
