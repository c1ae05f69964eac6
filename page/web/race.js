// ---------------------------------------------------------------- the race
// Two lanes on one clock. A fetch is a pass of the large model: all its weights come from memory. Each
// lane has fetches {round, begin, middle, end}: guesses are made from begin to middle, the weights
// come from middle to end. A place is one word of the text that the model says, or is to say.

const race = {lanes: [], length: 1, plan: [], wall: 0, time: 0, playing: false, seen: true, frame: null};

// Seconds on the page: of a fetch alone, at first; of the check of a place; of a look at all of them; of
// what comes after the first round; of the end. FAST: fetches a second that no eye can follow one by one.
const SECONDS = {fetch: 2.2, step: .6, look: 2.6, others: 4.5, end: 5}, FAST = 2;

// The places of a round that are checked, one after the other: the guesses that are accepted, and the
// place of the large model's own word. What comes after it is void.
const stepsOf = ({accepted}) => accepted + 1;

// The large model alone, in rounds without guesses.
const roundsAlone = ({tokens, shown, seconds}) => tokens.map((id, i) => ({draft: [], accepted: 0,
  tokens: [id], sources: ["target"], shown: [shown[i]], seconds: [0, seconds[i]]}));

function laneOf(kind, name, rounds, run) {
  let end = 0;
  const fetches = rounds.map(round => {
    const [drafting, rest] = round.seconds, begin = end, middle = begin + drafting;
    end = middle + rest;
    return {round, begin, middle, end};
  });
  return {kind, name, fetches, end, places: kind === "alone" ? 1 : mostWords(run), isLookUp: !run.parameters[1],
    isSaid: isSaid(run), isSame: isSameText(run), waits: isWaiting(run), rule: run.settings.verification, words: sum(rounds.map(({tokens}) => tokens.length))};
}

// When which moment is shown: pieces {from, to, wall, bend}, from one time of the race to another in
// `wall` seconds. At first slowly, and the clock is held while the places of the first round are checked;
// then ever faster, from the same speed on: at the part x of a piece, expm1(bend x) / expm1(bend) of it.
function planOf([alone, together]) {
  const unit = alone.end / alone.fetches.length || 1, [{end, round}] = together.fetches;
  const slow = (from, to) => ({from, to, wall: SECONDS.fetch * (to - from) / unit, bend: 0});
  const first = slow(0, end), rest = slow(end, race.length);
  for (let i = 0; i < 50 && rest.wall > SECONDS.others; i++) rest.bend = Math.log1p(rest.bend * rest.wall / SECONDS.others) || 1;
  return [{...first, wall: Math.min(first.wall, 2 * SECONDS.fetch)}, {from: end, to: end, wall: SECONDS.step * stepsOf(round) + SECONDS.look, bend: 0, isLook: true},
    {...rest, wall: Math.min(rest.wall, SECONDS.others)}, {from: race.length, to: race.length, wall: SECONDS.end, bend: 0, isEnd: true}].filter(({wall}) => wall > 0);
}

// What is shown at `wall` seconds of the plan: {time, says, checked: places, isFast}; null at its end.
function momentAt(wall) {
  for (const {from, to, bend, isLook, isEnd, wall: length} of race.plan) {
    const part = wall / length;
    if (part >= 1) { wall -= length; continue; }
    const speed = (to - from) / length * (bend ? bend * Math.exp(bend * part) / Math.expm1(bend) : 1);
    return {time: from + (to - from) * (bend ? Math.expm1(bend * part) / Math.expm1(bend) : part),
      says: isLook ? "clock held" : isEnd ? `again: ${Math.ceil(length - wall)}\u00a0s` : `slowed ${rounded(1 / speed, 1)}×`,
      checked: isLook ? Math.floor(wall / SECONDS.step) : Infinity,
      isFast: speed * race.lanes[0].fetches.length > FAST * race.lanes[0].end};
  }
  return null;
}

function wallAt(time) {
  let wall = 0;
  for (const {from, to, bend, wall: length} of race.plan) {
    const part = clamp((time - from) / (to - from), 0, 1);
    if (time < to) return wall + length * (bend ? Math.log1p(part * Math.expm1(bend)) / bend : part);
    wall += length;
  }
  return wall - SECONDS.end;
}

// ---------------------------------------------------------------- a lane, drawn

// A token: the space before a word has no colour.
function tokenSpan(kind, text) {
  const [, space, rest] = /^( ?)(.*)$/s.exec(plainly(text).replace(/\n/g, "⏎") || "·");
  return [space, make("span.mark." + kind, rest)];
}

const wide = text => make("span.wide", text), millions = size => `${rounded(size / 1e6, 2)} million weights`;

// Who is at work in a lane, in words.
function whoIn({kind, isLookUp}, run) {
  const [large, small] = run.parameters;
  if (kind === "alone") return wide(millions(large) + (isOurs(run) ? ": a GPT-2 that writes fairy tales" : ""));
  if (isLookUp) return "by looking up what came before";
  return [make("span.swatch.of-draft"), " ", wide(millions(small) + ": "), small < large && `${rounded(large / small, 2)}\u00a0× smaller`, isOurs(run) && ", trained to imitate the large one"];
}

function drawLane(lane, run) {
  const of = x => share(x / race.length), isAlone = lane.kind === "alone", [large, small] = run.parameters;
  const pipe = kind => make(`div.pipe.${kind}`, make("i"));
  lane.large = pipe("of-target");
  lane.small = isAlone ? null : pipe("of-draft");
  lane.says = make("p.says");
  lane.rows = make("div.rows");
  lane.strip = make("div.strip", lane.fetches.map(({begin, middle, end}) => [
    middle > begin && make("i.of-draft", {style: {left: of(begin), width: of(middle - begin)}}),
    make("i.of-target", {style: {left: of(middle), width: of(end - middle)}})]));
  const isShort = lane.end < .7 * race.length; // there is room behind its end
  lane.gain = make("span", !isAlone && isMeasured(run) && isShort && ["  ", factor(speedupOf(run)), wide(" as fast")]);
  lane.flag = make("b.flag", {style: isShort ? {left: of(lane.end)} : {right: share(1 - lane.end / race.length)}}, ms(lane.end, 0), lane.gain);
  lane.flag.classList.toggle("inside", !isShort);
  lane.count = make("span.count", {"aria-hidden": "true"});
  lane.pending = make("span.pending");
  lane.groups = lane.fetches.map(({round}) => make("span.fetch", round.tokens.map((_, i) =>
    tokenSpan(isAlone ? "plain" : round.sources[i], round.shown[i]))));
  lane.text = make("p.written", {dir: "auto"}, make("span.soft", plainly(run.prompt)), lane.groups);
  lane.ends = !isAlone && isOtherText(run) && !isSameText(run) && "Different texts, same odds: as it should be.";
  $("lanes").append(make("section.lane." + lane.kind, {"aria-label": lane.name},
    make("div.row.between", make("h2", lane.name, lane.small && small && wide(" that guesses")), make("span.who", whoIn(lane, run)), lane.count),
    make("p.hush", `${plural(lane.words, "word")} from ${plural(lane.fetches.length, "fetch")}, ${ms(lane.end, 0)}.`),
    make("div", {"aria-hidden": "true"}, lane.says, make("div.road",
      make("div.memory", lane.small && small && make("span.small", {style: {width: `${Math.min(1, Math.sqrt(small / large)) * 100}%`}}),
        make("span.slab", make("b", millions(large)), make("small", "in memory"))),
      make("div.pipes", lane.small, lane.large),
      make(`div.places${lane.places > 7 ? ".many" : ""}${lane.isSaid ? "" : ".odds"}`, make("div.place.head", ["guess", lane.isSaid ? ["large model", wide(" says")] : [wide("large model’s "), "odds"], ""].map(name => make("span", name))), lane.rows)),
    make("div.time", lane.strip, lane.flag), lane.text)));
}

// Whether the large model says a word at each place: the likeliest, or that of the noise it shares.
const isSaid = run => !isByChance(run) || run.settings.coupled;

// How many guesses of a round there are at a time.
const guessedAt = ({round, begin, middle}, time) =>
  Math.floor(round.draft.length * (middle > begin ? clamp((time - begin) / (middle - begin), 0, 1) : 1) + 1e-9);

// The places of a fetch, a row each: the guess, what the large model says, and what comes of it; while
// guesses are made, while the weights come, and when so many places are checked.
function placesOf(lane, one, time, checked) {
  const {draft, accepted, tokens, sources, p, q} = one.round, n = draft.length;
  const guessed = guessedAt(one, time), odds = (x, kind = "small") => make(kind, ` ${percent(x)}`), own = i => make("span.mark." + sources[i], bare(words[tokens[i]]));
  const rows = range(lane.places).map(i => {
    const guess = i < guessed && bare(words[draft[i]]);
    const row = (kind, given, says, verdict) => make("div.place" + kind, [given, says, verdict].map(cell => make("span", cell)));
    const given = guess ? [guess, !lane.isSaid && odds(q[i], "small.wide")] : i === n && guessed === n && make("small", "no guess");
    if (i > n || i > guessed || checked <= Math.min(i, accepted)) return row(guess ? ".guess" : i === n && guessed === n ? "" : ".empty", given, given && "…");
    if (i > accepted || i >= tokens.length) return row(".off", guess && make("s", given), "", "void");
    if (i === n) return row("", given, own(i), lane.small && make("span.bonus", "extra", wide(" word")));
    const says = lane.isSaid ? i < accepted ? guess : own(i) : odds(p[i]);
    return i < accepted ? row(".good", given, says, ["✓", wide(" accepted")])
      : row(".wrong", make("s", given), says, lane.isSaid ? [wide("✗ rejected, "), "replaced"] : ["✗ → ", own(i)]);
  });
  return lane.small ? rows : [...rows, make("div.place.empty.rest", "the next places wait for this word")];
}

// How many words a round brought, and why so many.
function broughtBy({accepted, tokens, sources}) {
  const own = tokens.length > accepted ? ` + 1 ${sources[accepted] === "bonus" ? "extra word" : "replacement"}` : "";
  return `${accepted} accepted${own} = ${plural(tokens.length, "word")} from one fetch.`;
}

// What became of the i-th place of a round, in words. isSaid: of the lane; rule: of the run
function judged(round, i, {isSaid, rule}) {
  const {draft, accepted, tokens, p, q} = round, own = i < tokens.length && quoted(tokens[i]);
  if (i === draft.length) return `All guesses were right: the last place brings ${own}, too.`;
  const kept = i < accepted, says = `Guess ${quoted(draft[i])}`, rate = Math.min(1, p[i] / q[i]);
  if (!kept && !own) return broughtBy(round);
  if (isSaid) return `${says}: the large model says ${kept ? "the same. Accepted" : `${own}. Rejected, replaced`}.`;
  if (kept && rate === 1) return `${says}: the large model finds it no less likely. Accepted.`;
  const odds = rule === "token" ? `, as in ${percent(kept ? rate : 1 - rate)} of all cases` : "";
  return says + (kept ? ` is accepted${odds}.` : ` is rejected${odds}: ${own} comes instead.`);
}

// A moment of a lane, as momentAt returns it: of its last fetch, so many places are checked. Of fast
// fetches only what they brought is shown.
function showLane(lane, {time, checked = Infinity, isFast = false}) {
  const all = lane.fetches, done = all.filter(({end}) => end <= time + 1e-12).length;
  const now = all[done], last = all[done - 1], isRunning = isFast && Boolean(now), isAlone = !lane.small;
  // alone, what was written stays in sight while the next weights begin to come
  const linger = isAlone && now ? .25 * (now.end - now.middle) : 0;
  const isLook = last && (!now || isFast || time - last.end <= linger + 1e-12), shown = isLook ? last : now;
  const {round} = shown, n = round.draft.length, isJudged = isAlone || checked >= stepsOf(round);
  lane.rows.replaceChildren(...placesOf(lane, shown, time, !isLook ? 0 : isJudged ? Infinity : checked));
  lane.large.classList.toggle("runs", isRunning && race.playing);
  lane.large.style.setProperty("--read", share(now && !isRunning && !(isLook && lane.small) ? (time - now.middle) / (now.end - now.middle) : 1));
  lane.says.textContent = !now ? lane.ends || `${plural(all.length, "fetch")} for ${isAlone || !lane.isSame ? "" : "the same "}${plural(lane.words, "word")}.`
    : isRunning ? `Fetch after fetch: ${isAlone ? "one word" : "several words"} each.`
    : isLook && !isAlone ? checked > stepsOf(round) + 1 ? broughtBy(round) : checked ? judged(round, Math.min(checked, stepsOf(round)) - 1, lane) : "Which guesses are right?"
    : time < shown.middle ? `The ${lane.isLookUp ? "look-up" : "small model"} guesses the next words.`
    : n ? `The same fetch serves ${n + 1} places at once.` : `One fetch for one word${lane.waits ? ": computing waits" : ""}.`;
  if (lane.small) lane.small.style.setProperty("--read", share(now && now.middle > now.begin && !isLook ? (time - now.begin) / (now.middle - now.begin) : 0));
  const counted = done - Number(done > 0 && isLook && !isJudged), guesses = isLook && isJudged ? 0 : guessedAt(shown, time);
  lane.groups.forEach((group, i) => group.classList.toggle("room", i >= counted));
  lane.pending.replaceChildren(...range(guesses).flatMap(i => tokenSpan("guess", words[round.draft[i]])));
  if (guesses) lane.groups[counted].prepend(lane.pending);
  const written = sum(all.slice(0, counted).map(({round}) => round.tokens.length));
  lane.count.replaceChildren(make("b", plural(written, "word")), guesses ? ` + ${plural(guesses, "guess")}, ` : " from ", make("b", plural(counted, "fetch")));
  lane.strip.style.setProperty("--now", share(time < lane.end ? time / race.length : 1));
  lane.flag.classList.toggle("room", time < lane.end);
  lane.gain.classList.toggle("room", time < race.length);
  const group = lane.groups[Math.max(0, done - 1)]; // a long text runs along
  lane.text.scrollTop = group.offsetTop + group.offsetHeight - lane.text.clientHeight;
}

// Where the clock stands, and how it runs.
const showClock = (says = race.time < race.length ? "paused" : "the end") =>
  put("now", make("b", ms(race.time, 0)), " ", make("small", {"aria-hidden": "true"}, says));

function show(moment) {
  race.time = clamp(moment.time, 0, race.length);
  for (const lane of race.lanes) showLane(lane, {...moment, time: race.time});
  $("clock").value = 1000 * race.time / race.length;
  showClock(race.playing ? moment.says : undefined);
  $("clock").setAttribute("aria-valuetext", ms(race.time, 1));
}

const showMoment = time => show({time});

// ---------------------------------------------------------------- playing

function pause() {
  race.playing = false;
  cancelAnimationFrame(race.frame);
  $("play").textContent = "Play";
  showClock();
  for (const element of document.querySelectorAll(".runs")) element.classList.remove("runs");
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
    const moment = momentAt(race.wall);
    if (!moment && still.matches) return finish();
    if (!moment) race.wall = 0;
    if (race.seen && (!asking || now - drawn > 100)) { // little, while the server measures times
      show(moment ?? momentAt(0));
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

// How many times as fast: of all races the one in the middle, which is the one that is shown.
function showSum(run) {
  const all = speedupsOf(run);
  if (mostWords(run) === 1) return put("sum", "Nothing was guessed in this text: the large model wrote it alone.");
  const {alone, guessing, rest, written} = costsOf(run);
  const same = isOtherText(run) ? "same odds" : isSameText(run) ? "same words" : "same words, but for a tie";
  put("sum", make("b", `${isMeasured(run) ? factor(speedupOf(run)) : "…"} as fast, ${same}: `),
    `${ms((guessing + rest) / written)} a word instead of ${ms(alone)}. `,
    all.length > 2 && make("span.soft.wide", `Middle of ${all.length} races (${Math.min(...all).toPrecision(2)} to ${factor(Math.max(...all))}).`));
}

// The time of a word as bars, and the sum that closes the gap: the shorter, the faster.
function showCost(run) {
  const {alone, guessing, rest, written} = costsOf(run), word = (guessing + rest) / written;
  const fetch = Math.min(alone, rest) / written, more = Math.max(0, rest - alone) / written;
  const bar = (kind, seconds) => make("i." + kind, {style: width(seconds / Math.max(alone, word))});
  const row = (name, seconds, ...all) => [make("span", name), make("div", all), make("b", `${ms(seconds)} a word`)];
  const part = (kind, ...says) => make("span", make("span.swatch." + kind), says);
  put("cost", mostWords(run) > 1 && [row("alone", alone, bar("of-target", alone)),
    row("with guesses", word, bar("of-draft", guessing / written), bar("of-target", fetch), bar("more", more)),
    make("p.legend", part("of-draft", `guessing ${ms(guessing / written)}`),
      part("of-target", `a fetch, shared by ${written.toFixed(2)} words: ${ms(Math.min(alone, rest))} / ${written.toFixed(2)} = ${ms(fetch)}`),
      part("more", `computing more places ${ms(more)}`))]);
}

// What a place more adds to a fetch, in seconds; and whether the fetch itself takes most of the time.
const moreOf = ({alone, rest, guesses}) => Math.max(0, rest - alone) / Math.max(1, guesses);
function isWaiting(run) {
  const costs = costsOf(run);
  return moreOf(costs) < .18 * costs.alone;
}

function showWhy(run) {
  const costs = costsOf(run), {alone, guessing, rest, written} = costs, n = mostWords(run), [large] = run.parameters;
  const all = guessing + rest, count = written.toFixed(2), fetching = `fetching ${millions(large)}`;
  put("why", n === 1 ? "" : all > written * alone ? [make("b", "Why was it not faster? "), `With guesses, a fetch took ${ms(all)} instead of ${ms(alone)} and brought ${count} words: `,
    written < 1 + .5 * (n - 1) ? `only ${percent(acceptedIn(run) / (examinedIn(run) || 1))} of the guesses that were checked were accepted.` : rest - alone > guessing ? "checking took too long." : "guessing took too long."]
    : [make("b", "Why? "), `${count} words share one fetch. `, isWaiting(run)
      ? `A place more makes it only ${ms(moreOf(costs))} longer: ${fetching} takes most of the time, and serves all places.`
      : `A place more makes it ${ms(moreOf(costs))} longer: ${fetching} serves all places, but computing took much of the time, too. Other programs at work make it longer.`]);
  const bytes = large * (run.numbers === "float16" ? 2 : 4);
  put("work", `A fetch is one pass of the large model: all weights come from memory, and compute. A word is a token here: a full stop counts, and so does a part of a word. `
    + `At work: ${isOurs(run) ? "GPT-2s of this project that write fairy tales" : "GPT-2"} (${run.parameters.map(size => rounded(size / 1e6, 2)).join(" and ")} million weights, ${run.numbers}), `
    + `one text at a time, on ${run.processor}: ${rounded(bytes / 1e6, 2)} MB in ${ms(alone)}, ${rounded(bytes / alone / 1e9, 2)} GB/s. `
    + `Times of passes are measured. How much of a pass is fetching is not seen, but inferred: with ${n === 1 ? "more" : n} places it took ${times(rest / alone)} the time of one with one place. Other texts gain more, or less.`);
}

// Lay a run out.
function showRace(run) {
  race.lanes = [laneOf("alone", "Large model alone", roundsAlone(run.alone), run),
    laneOf("together", run.parameters[1] ? "With a small model" : "With guesses", run.rounds, run)];
  race.length = Math.max(...race.lanes.map(lane => lane.end)) || 1;
  race.plan = planOf(race.lanes);
  put("lanes");
  for (const lane of race.lanes) drawLane(lane, run);
  for (const show of [showSum, showCost, showWhy]) show(run);
  press("chance", Number(isByChance(run)));
}
