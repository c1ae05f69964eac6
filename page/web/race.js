// ---------------------------------------------------------------- the race
// Two lanes on one clock. A delivery is a pass of the large model: all its weights come from memory.
// Each lane has deliveries {round, before, begin, middle, end}: guesses are made from begin to middle,
// the weights come from middle to end. before is the word that stands before it in the text.

const race = {lanes: [], length: 1, plan: [], wall: 0, time: 0, playing: false, seen: true, frame: null};

// Seconds on the page: of a delivery alone, at first; of a look at what a round brought; of all the
// other rounds together; of the end.
const SECONDS = {delivery: 2, look: 1.4, others: 5, end: 8}, N_SLOW = 2;
const N_ALONE = 5; // places that the large model alone could fill, if it knew the words before them

const lastWord = text => /\S*\s*$/u.exec(text)[0].slice(-12) || "·";

// The large model alone, in rounds without guesses.
const roundsAlone = ({tokens, shown, seconds}) => tokens.map((id, i) => ({draft: [], accepted: 0,
  tokens: [id], sources: ["target"], shown: [shown[i]], seconds: [0, seconds[i]]}));

function laneOf(kind, name, rounds, run) {
  let end = 0, before = lastWord(run.prompt);
  const deliveries = rounds.map(round => {
    const [drafting, rest] = round.seconds, begin = end, middle = begin + drafting, own = before;
    end = middle + rest;
    before = words[round.tokens.at(-1)];
    return {round, before: own, begin, middle, end};
  });
  return {kind, name, deliveries, end, places: kind === "alone" ? N_ALONE : mostWords(run)};
}

// When which moment is shown: pieces {from, to, wall, power}, from one time of the race to another in
// `wall` seconds. At first slowly, with a look at each round with guesses; then ever faster.
function planOf([alone, together]) {
  const unit = alone.end / alone.deliveries.length || 1, plan = [];
  for (const {begin, end} of together.deliveries.slice(0, N_SLOW)) {
    plan.push({from: begin, to: end, wall: Math.min(6, SECONDS.delivery * (end - begin) / unit)},
      {from: end, to: end, wall: SECONDS.look});
  }
  const from = plan.at(-1).to;
  plan.push({from, to: race.length, wall: SECONDS.others, power: 1.8}, {from: race.length, to: race.length, wall: SECONDS.end});
  return plan;
}

// The time of the race at `wall` seconds of the plan; null at its end.
function timeAt(wall) {
  for (const piece of race.plan) {
    if (wall < piece.wall) return piece.from + (piece.to - piece.from) * (wall / piece.wall) ** (piece.power ?? 1);
    wall -= piece.wall;
  }
  return null;
}

function wallAt(time) {
  let wall = 0;
  for (const piece of race.plan) {
    if (time < piece.to) return wall + piece.wall * clamp((time - piece.from) / (piece.to - piece.from), 0, 1) ** (1 / (piece.power ?? 1));
    wall += piece.wall;
  }
  return wall - SECONDS.end;
}

// ---------------------------------------------------------------- a lane, drawn

// A token: the space before a word has no colour.
function tokenSpan(kind, text, p = 0) {
  const [, space, rest] = /^( ?)(.*)$/s.exec(plainly(text).replace(/\n/g, "⏎") || "·");
  return [space, make("span.mark." + kind, {style: {"--sure": share(p)}}, rest)];
}

function drawLane(lane, run) {
  const of = x => share(x / race.length), isAlone = lane.kind === "alone";
  const sure = isAlone && isSameText(run) ? surenessOf(run) : [];
  const pipe = (kind, ...says) => make(`div.pipe.${kind}`, make("i"), says);
  const [large, small] = run.parameters; // look-up has none
  lane.says = make("span");
  lane.large = pipe("of-target", make("b", lane.says));
  lane.small = isAlone ? null : pipe("of-draft", make("b", make("span", make("span.wide", `small model${small < large ? `, ${rounded(large / small, 2)} × smaller,` : ""} `), "guesses")));
  lane.rows = make(lane.places > 7 ? "div.places.many" : "div.places");
  lane.strip = make("div.strip", lane.deliveries.map(({begin, middle, end}) => [
    middle > begin && make("i.of-draft", {style: {left: of(begin), width: of(middle - begin)}}),
    make("i.of-target", {style: {left: of(middle), width: of(end - middle)}})]));
  lane.flag = make("b.flag", {style: {left: of(lane.end)}}, ms(lane.end, 0));
  lane.count = make("span.count", {"aria-hidden": "true"});
  let n = 0;
  lane.groups = lane.deliveries.map(({round}) => make("span.delivery", round.tokens.map((_, i) => {
    return tokenSpan(isAlone ? "sure" : round.sources[i], round.shown[i], sure[n++]);
  })));
  lane.text = make("p.written", {dir: "auto"}, make("span.soft", plainly(run.prompt)), lane.groups);
  const weights = `${rounded(large / 1e6, 2)} million weights`;
  $("lanes").append(make("section.lane." + lane.kind, {"aria-label": lane.name},
    make("div.row.between", make("h2", isAlone ? lane.name : [make("span.wide", "Large model "), "with guesses"]), sure.length > 0 && make("span.hint.soft", {"aria-hidden": "true"}, "darker: surer of its word"), lane.count),
    make("p.hush", `${plural(n, "word")} from ${deliveries(lane.deliveries.length)}, ${ms(lane.end, 0)}.`),
    make("div", {"aria-hidden": "true"}, make("div.road",
      make("div.memory", lane.small && small && make("span.small", {style: {width: `${Math.min(1, Math.sqrt(small / large)) * 5.4}rem`}}),
        make("span.slab", make("b", weights), make("small", "in memory"))),
      make("div.pipes", lane.small, lane.large), lane.rows),
    make("div.time", lane.strip, lane.flag), lane.text)));
}

const deliveries = n => n === 1 ? "1 delivery" : `${n} deliveries`;

// The places of the processor: each takes a word, and says the next one. What a place shows of a
// delivery: while guesses are made, while the weights come, and when they have come (isDone).
function placesOf(lane, {round, before, begin, middle}, time, isDone) {
  const n = round.draft.length, part = middle > begin ? clamp((time - begin) / (middle - begin), 0, 1) : 1;
  const guessed = isDone ? n : Math.floor(n * part + 1e-9);
  return range(lane.places).map(i => {
    const arrow = make("i", "→"), isGuess = i < guessed, guess = isGuess && bare(words[round.draft[i]]);
    if (i > guessed || i > n) return make("div.place.empty", make("span", i > n && lane.kind === "alone" ? "not known yet" : ""), i > n && lane.kind === "alone" && arrow);
    const given = make("span", i ? bare(words[round.draft[i - 1]]) : bare(before));
    if (!isDone) return make(isGuess ? "div.place.guess" : "div.place", given, arrow, isGuess ? [make("span.mark", guess), make("small", "guess")] : make("b", "?"));
    if (i < round.accepted) return make("div.place.good", given, arrow, make("span.mark.draft", guess), make("b", "✓"));
    if (i > round.accepted || i >= round.tokens.length) return make("div.place.off", given, arrow, "…");
    return make("div.place", given, arrow, isGuess && make("s", guess), make("span.mark." + round.sources[i], bare(words[round.tokens[i]])));
  });
}

function showLane(lane, time) {
  const all = lane.deliveries, done = all.filter(({end}) => end <= time + 1e-12).length;
  const now = all[done], last = all[done - 1];
  // alone, what was written stays in sight while the next weights begin to come
  const linger = lane.kind === "alone" && now ? .25 * (now.end - now.middle) : 0;
  const isLook = last && (!now || time - last.end <= linger), shown = isLook ? last : now;
  const n = shown.round.draft.length;
  lane.rows.replaceChildren(...placesOf(lane, shown, time, isLook));
  const part = now && !(isLook && lane.small) ? clamp((time - now.middle) / (now.end - now.middle), 0, 1) : 1;
  lane.large.style.setProperty("--read", share(part));
  lane.says.textContent = now && time < now.middle && !isLook ? "" : n ? `one delivery, used for ${n + 1} words` : "one delivery, used for one word";
  if (lane.small) {
    const guessing = now && now.middle > now.begin && !isLook ? clamp((time - now.begin) / (now.middle - now.begin), 0, 1) : 0;
    lane.small.style.setProperty("--read", share(guessing < 1 ? now ? guessing * now.round.draft.length % 1 : 0 : 1));
  }
  lane.groups.forEach((group, i) => group.classList.toggle("room", i >= done));
  const written = sum(all.slice(0, done).map(({round}) => round.tokens.length));
  lane.count.replaceChildren(make("b", plural(written, "word")), " from ", make("b", deliveries(done)));
  lane.strip.style.setProperty("--now", share(time < lane.end ? time / race.length : 1));
  lane.flag.classList.toggle("room", time < lane.end);
  const group = lane.groups[Math.max(0, done - 1)]; // a long text runs along
  lane.text.scrollTop = group.offsetTop + group.offsetHeight - lane.text.clientHeight;
}

function showMoment(time) {
  race.time = clamp(time, 0, race.length);
  for (const lane of race.lanes) showLane(lane, race.time);
  $("clock").value = 1000 * race.time / race.length;
  $("now").textContent = ms(race.time, 1);
  $("clock").setAttribute("aria-valuetext", ms(race.time, 1));
}

// ---------------------------------------------------------------- playing

function pause() {
  race.playing = false;
  cancelAnimationFrame(race.frame);
  $("play").textContent = "Play";
}

// From this moment on, in a loop; with reduced motion, only when asked, and once.
function play() {
  pause();
  race.playing = true;
  $("play").textContent = "Pause";
  race.wall = race.time >= race.length ? 0 : wallAt(race.time);
  let last = performance.now(), drawn = 0;
  const tick = now => {
    if (race.seen) race.wall += Math.min(now - last, 100) / 1e3;
    last = now;
    const time = timeAt(race.wall);
    if (time === null && still.matches) return finish();
    if (time === null) race.wall = 0;
    if (race.seen && (!asking || now - drawn > 100)) { // little, while the server measures times
      showMoment(time ?? 0);
      drawn = now;
    }
    race.frame = requestAnimationFrame(tick);
  };
  race.frame = requestAnimationFrame(tick);
}

function finish() {
  pause();
  showMoment(race.length);
  announce(`The end: ${$("sum").textContent}`);
}

$("play").addEventListener("click", () => race.playing ? pause() : play());
$("clock").addEventListener("input", () => { pause(); showMoment($("clock").value / 1000 * race.length); });
new IntersectionObserver(([{isIntersecting}]) => { race.seen = isIntersecting; }).observe($("lanes"));
addEventListener("beforeprint", () => { pause(); showMoment(race.length); });

// ---------------------------------------------------------------- what came out

// Drawn by chance, the two texts differ.
const isOtherText = run => isByChance(run) && !run.settings.coupled;

// The sum of the picture: as many words as the lane with guesses has, over its deliveries.
function showSum(run) {
  const turns = turnsOf(run), isMeasured = turns.length > 2 || !asking;
  const speedup = medianOf(turns, "speedup"), n = mostWords(run), all = turns.map(turn => turn.speedup);
  if (n === 1) return put("sum", "Nothing was guessed in this text: the large model wrote it alone.");
  const {longer, guessing, passes, count} = costsOf(run);
  const same = isOtherText(run) ? "same odds" : isSameText(run) ? "same words" : "same words, but for a tie";
  put("sum", make("b", `${isMeasured ? factor(speedup) : "…"} as fast, ${same}: `),
    `${plural(count, "word")} / (${deliveries(passes)} × (${longer.toFixed(2)} + ${guessing.toFixed(2)})) ≈ ${(count / passes / (longer + guessing)).toPrecision(2)}. `,
    make("span.soft", `A delivery alone takes 1; used for up to ${n} words, ${longer.toFixed(2)}; its guesses, ${guessing.toFixed(2)}.`,
      all.length > 2 && ` Middle of ${all.length} races (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)}).`));
}

// Of the race that is shown, in deliveries of the large model alone: how long one is with guesses, and
// the guesses of one.
function costsOf(run) {
  const one = sum(run.alone.seconds) / run.alone.tokens.length, passes = run.rounds.length;
  const [guessing, longer] = [0, 1].map(i => sum(run.rounds.map(({seconds}) => seconds[i])) / passes / one);
  return {one, passes, longer, guessing, count: tokensOf(run).length};
}

function showWhy(run) {
  const {one, longer, guessing, passes, count} = costsOf(run), n = mostWords(run), [large] = run.parameters;
  const more = Math.max(0, longer - 1) / Math.max(1, draftedIn(run) / passes); // for each guess
  const time = `a delivery for up to ${n} words took ${factor(longer)} as long as for one`;
  const round = longer + guessing, gain = count / passes;
  put("why", n === 1 ? "" : gain < round ? [make("b", "Why was it not faster? "), `A round took the time of ${round.toFixed(2)} deliveries (guessing ${guessing.toFixed(2)}, checking ${longer.toFixed(2)}) and brought ${gain.toFixed(2)} words: `,
    gain < 1 + .5 * (n - 1) ? `guesses were right in only ${percent(acceptedIn(run) / (examinedIn(run) || 1))} of all cases.` : longer - 1 > guessing ? "checking took too long." : "guessing took too long."]
    : more < .18 ? [make("b", "Why? "), `Fetching ${rounded(large / 1e6, 2)} million weights takes most of the time, and calculating with them little: ${time}.`]
      : [make("b", "Why? "), `Fetching the weights is shared by all words of a delivery. But here calculating took much of the time, too: ${time}. Other programs at work make it longer.`]);
  const bytes = large * (run.numbers === "float16" ? 2 : 4), ours = run.settings.target_model_size === "17M";
  put("work", `At work: ${ours ? "GPT-2s of this project that write fairy tales" : "GPT-2"} (${run.parameters.map(size => rounded(size / 1e6, 2)).join(" and ")} million weights, ${run.numbers}), `
    + `one text at a time, on ${run.processor}: ${rounded(bytes / 1e6, 2)} MB in ${ms(one, 1)}, ${rounded(bytes / one / 1e9, 2)} GB/s. `
    + "Other texts gain more, or less. A delivery is one pass of the model; words are tokens, some of them parts of words. Times are measured; what of them is fetching is concluded from the time that more words take.");
}

// Lay a run out.
function showRace(run) {
  race.lanes = [laneOf("alone", "Large model alone", roundsAlone(run.alone), run),
    laneOf("together", "Large model with guesses", run.rounds, run)];
  race.length = Math.max(...race.lanes.map(lane => lane.end)) || 1;
  race.plan = planOf(race.lanes);
  put("lanes");
  for (const lane of race.lanes) drawLane(lane, run);
  showSum(run);
  showWhy(run);
  press("chance", Number(isByChance(run)));
}
