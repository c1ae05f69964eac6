// ---------------------------------------------------------------- the race
// Two lanes on one clock. A delivery is a pass of the large model: all its weights come from memory.
// Each lane has deliveries {round, before, begin, middle, end}: guesses are made from begin to middle,
// the weights come from middle to end. before is the word that stands before it in the text.

const race = {lanes: [], length: 1, plan: [], wall: 0, time: 0, playing: false, seen: true, frame: null};

// Seconds on the page: of a delivery alone and of a guess, at first; of a step of checking; of a look at all rows;
// of what comes after the first deliveries with guesses; of the end. FAST: deliveries a second that no
// eye can follow one by one.
const SECONDS = {delivery: 2, guess: .5, step: .5, look: 2, others: 8, end: 6}, N_SLOW = 2, FAST = 2;

// Steps until a round is checked: one a row, up to the last that counts; what is rejected is seen for
// three more, before its replacement comes.
const stepsOf = ({accepted, examined}) => accepted + (examined > accepted ? 4 : 1);

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
  return {kind, name, deliveries, end, places: kind === "alone" ? 1 : mostWords(run)};
}

// When which moment is shown: pieces {from, to, wall, bend}, from one time of the race to another in
// `wall` seconds. At first slowly, and the clock is held while the rows of a round are checked; then
// ever faster, from the same speed on: at the part x of a piece, expm1(bend x) / expm1(bend) of it.
function planOf([alone, together]) {
  const unit = alone.end / alone.deliveries.length || 1, plan = [];
  const slow = (from, to, most) => ({from, to, wall: Math.min(most, SECONDS.delivery * (to - from) / unit), bend: 0});
  for (const {begin, middle, end, round} of together.deliveries.slice(0, N_SLOW))
    plan.push({from: begin, to: middle, wall: SECONDS.guess * round.draft.length, bend: 0}, slow(middle, end, 6), {from: end, to: end, wall: SECONDS.step * stepsOf(round) + SECONDS.look, bend: 0, isLook: true});
  const rest = slow(plan.at(-1).to, race.length, Infinity);
  for (let i = 0; i < 50 && rest.wall > SECONDS.others; i++) rest.bend = Math.log1p(rest.bend * rest.wall / SECONDS.others) || 1;
  plan.push({...rest, wall: Math.min(rest.wall, SECONDS.others)}, {from: race.length, to: race.length, wall: SECONDS.end, bend: 0, isEnd: true});
  return plan.filter(({wall}) => wall > 0);
}

// What is shown at `wall` seconds of the plan: {time, says, checked: steps, isFast}; null at its end.
function momentAt(wall) {
  for (const {from, to, bend, isLook, isEnd, wall: length} of race.plan) {
    const part = wall / length;
    if (part >= 1) { wall -= length; continue; }
    const speed = (to - from) / length * (bend ? bend * Math.exp(bend * part) / Math.expm1(bend) : 1);
    return {time: from + (to - from) * (bend ? Math.expm1(bend * part) / Math.expm1(bend) : part),
      says: isLook ? "clock held" : isEnd ? `again in ${Math.ceil(length - wall)}\u00a0s` : bend ? "ever faster" : "slow motion",
      checked: isLook ? Math.floor(wall / SECONDS.step) : Infinity,
      isFast: speed * race.lanes[0].deliveries.length > FAST * race.lanes[0].end};
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

function drawLane(lane, run) {
  const of = x => share(x / race.length), isAlone = lane.kind === "alone";
  const pipe = (kind, ...says) => make(`div.pipe.${kind}`, make("i"), says);
  const [large, small] = run.parameters; // look-up has none
  lane.says = make("span");
  lane.large = pipe("of-target", make("b", lane.says));
  lane.small = isAlone ? null : pipe("of-draft", make("b", make("span", small ? "small model" : "look-up", small < large && [", ", make("span", `${rounded(large / small, 2)}\u00a0×\u00a0smaller`)], make("span.wide", small < large ? ", guesses" : " guesses"))));
  lane.rows = make("div.rows");
  lane.strip = make("div.strip", lane.deliveries.map(({begin, middle, end}) => [
    middle > begin && make("i.of-draft", {style: {left: of(begin), width: of(middle - begin)}}),
    make("i.of-target", {style: {left: of(middle), width: of(end - middle)}})]));
  lane.flag = make("b.flag", {style: {left: of(lane.end)}}, ms(lane.end, 0));
  lane.count = make("span.count", {"aria-hidden": "true"});
  lane.groups = lane.deliveries.map(({round}) => make("span.delivery", round.tokens.map((_, i) =>
    tokenSpan(isAlone ? "plain" : round.sources[i], round.shown[i]))));
  lane.text = make("p.written", {dir: "auto"}, make("span.soft", plainly(run.prompt)), lane.groups);
  lane.ends = !isAlone && isOtherText(run) && !isSameText(run) && make("b.ends", "Different texts, same odds: as it should be.");
  const weights = `${rounded(large / 1e6, 2)} million weights`;
  $("lanes").append(make("section.lane." + lane.kind, {"aria-label": lane.name},
    make("div.row.between", make("h2", lane.name), lane.count),
    make("p.hush", `${plural(sum(lane.deliveries.map(({round}) => round.tokens.length)), "word")} from ${deliveries(lane.deliveries.length)}, ${ms(lane.end, 0)}.`),
    make("div", {"aria-hidden": "true"}, make("div.road",
      make("div.memory", lane.small && small && make("span.small", {style: {width: `${Math.min(1, Math.sqrt(small / large)) * 5.4}rem`}}),
        make("span.slab", make("b", weights), make("small", "in memory"))),
      make("div.pipes", lane.small, lane.large),
      make(lane.places > 7 ? "div.places.many" : "div.places", make("small", "processor", make("span.wide", ": each row says the next word")), lane.rows)),
    make("div.time", lane.strip, lane.flag), lane.text,
    lane.ends, !isAlone && make("div.legend", ["draft", "correction"].map(kind => make("span.mark." + kind, NAMES[kind])), make("span.under", "one delivery"),
      make("span", make("span.mark.bonus", NAMES.bonus), make("span.free", " all right: one more word comes free"))))));
}

const deliveries = n => n === 1 ? "1 delivery" : `${n} deliveries`;

// The rows of a delivery: each takes a word, and says the next one. What a row shows: while guesses
// are made, while the weights come, and after so many steps of checking.
function placesOf(lane, {round, before, begin, middle}, time, checked) {
  const n = round.draft.length, part = middle > begin ? clamp((time - begin) / (middle - begin), 0, 1) : 1;
  const guessed = Math.floor(n * part + 1e-9), {accepted} = round;
  const rows = range(lane.places).map(i => {
    const arrow = make("i", "→"), isGuess = i < guessed, guess = isGuess && bare(words[round.draft[i]]);
    if (i > guessed || i > n) return make("div.place.empty");
    const given = make("span", i ? bare(words[round.draft[i - 1]]) : bare(before));
    if (checked <= Math.min(i, accepted)) return make(isGuess ? "div.place.guess" : "div.place", given, arrow, isGuess ? [make("span.mark", guess), make("small", "guess")] : i < n ? make("small", "guessing") : make("b", "?"));
    if (i < accepted) return make("div.place.good", given, arrow, make("span.mark.draft", guess), make("b", "✓"));
    if (i > accepted || i >= round.tokens.length) return make("div.place.off", given, arrow, isGuess && make("s", guess), make("small", "void"));
    return make(isGuess ? "div.place.wrong" : "div.place", given, arrow, isGuess && make("s", guess),
      checked >= stepsOf(round) ? make("span.mark." + round.sources[i], bare(words[round.tokens[i]])) : make("b", "✗"));
  });
  return lane.small ? rows : [...rows, make("div.place.empty.rest", "the words after it are not known yet")];
}

// How many words a round brought, and why so many.
function broughtBy({draft, accepted, tokens, sources}) {
  if (!draft.length) return "one row: one word";
  const own = tokens.length > accepted ? ` + 1 ${sources[accepted] === "bonus" ? "extra" : "replacement"}` : "";
  return `${accepted} accepted${own} = ${plural(tokens.length, "word")}`;
}

// A moment of a lane, as momentAt returns it: its last delivery is checked by so many steps. Of fast
// deliveries only what they brought is shown.
function showLane(lane, {time, checked = Infinity, isFast = false}) {
  const all = lane.deliveries, done = all.filter(({end}) => end <= time + 1e-12).length;
  const now = all[done], last = all[done - 1], isRunning = isFast && Boolean(now);
  // alone, what was written stays in sight while the next weights begin to come
  const linger = lane.kind === "alone" && now ? .25 * (now.end - now.middle) : 0;
  const isLook = last && (!now || isFast || time - last.end <= linger + 1e-12), shown = isLook ? last : now;
  const {round} = shown, n = round.draft.length, isJudged = !lane.small || checked >= stepsOf(round);
  lane.rows.replaceChildren(...placesOf(lane, shown, time, !isLook ? 0 : isJudged ? Infinity : checked));
  lane.large.classList.toggle("runs", isRunning && race.playing);
  lane.large.style.setProperty("--read", share(now && !isRunning && !(isLook && lane.small) ? (time - now.middle) / (now.end - now.middle) : 1));
  lane.says.textContent = isRunning ? "one delivery after the other" : isLook && lane.small ? isJudged ? broughtBy(round)
    : checked > round.accepted ? `${quoted(round.draft[round.accepted])} is rejected: all after it is void` : "which guesses are accepted?"
    : time < shown.middle ? "waits for the guesses" : n ? `one delivery for ${n + 1} rows` : "one delivery for one row";
  if (lane.small) {
    const guessing = now && now.middle > now.begin && !isLook ? (time - now.begin) / (now.middle - now.begin) : 0;
    lane.small.style.setProperty("--read", share(guessing));
  }
  const counted = done - Number(done > 0 && isLook && !isJudged);
  lane.groups.forEach((group, i) => group.classList.toggle("room", i >= counted));
  const written = sum(all.slice(0, counted).map(({round}) => round.tokens.length));
  lane.count.replaceChildren(make("b", plural(written, "word")), " from ", make("b", deliveries(counted)));
  lane.strip.style.setProperty("--now", share(time < lane.end ? time / race.length : 1));
  lane.flag.classList.toggle("room", time < lane.end);
  if (lane.ends) lane.ends.classList.toggle("room", time < race.length);
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
  const all = speedupsOf(run), isMeasured = all.length > 2 || !asking;
  if (mostWords(run) === 1) return put("sum", "Nothing was guessed in this text: the large model wrote it alone.");
  const {alone, guessing, rest, written} = costsOf(run);
  const same = isOtherText(run) ? "same odds" : isSameText(run) ? "same words" : "same words, but for a tie";
  put("sum", make("b", `${isMeasured ? factor(speedupOf(run)) : "…"} as fast, ${same}: `),
    `${ms((guessing + rest) / written)} a word instead of ${ms(alone)}. `,
    all.length > 2 && make("span.soft", `Middle of ${all.length} races (${Math.min(...all).toPrecision(2)} to ${factor(Math.max(...all))}).`));
}

// The time of a word as bars: the shorter, the faster.
function showCost(run) {
  const {alone, guessing, rest, written} = costsOf(run), word = (guessing + rest) / written;
  const bar = (kind, seconds, says) => make("i." + kind, {style: width(seconds / Math.max(alone, word))}, make("span.wide", says));
  const row = (name, seconds, ...all) => [make("span", name), make("div", all), make("b", `${ms(seconds)} a word`)];
  put("cost", mostWords(run) > 1 && [row("alone", alone, bar("of-target", alone, "one delivery")),
    row("with guesses", word, bar("of-draft", guessing / written, "guessing"),
      bar("of-target", Math.min(alone, rest) / written, `one delivery, shared by ${written.toFixed(2)} words`),
      bar("more", Math.max(0, rest - alone) / written, "checking")),
    make("p.legend.narrow", [["of-draft", "guessing"], ["of-target", "one delivery"], ["more", "checking, a row for each guess"]].map(([kind, says]) =>
      make("span", make("span.swatch." + kind), says)))]);
}

function showWhy(run) {
  const {alone, guessing, rest, guesses, written} = costsOf(run), n = mostWords(run), [large] = run.parameters;
  const more = Math.max(0, rest - alone) / Math.max(1, guesses), all = guessing + rest, count = written.toFixed(2);
  const fetching = `fetching ${rounded(large / 1e6, 2)} million weights`;
  put("why", n === 1 ? "" : all > written * alone ? [make("b", "Why was it not faster? "), `With guesses, a delivery took ${ms(all)} instead of ${ms(alone)} and brought ${count} words: `,
    written < 1 + .5 * (n - 1) ? `only ${percent(acceptedIn(run) / (examinedIn(run) || 1))} of the guesses that were checked were accepted.` : rest - alone > guessing ? "checking took too long." : "guessing took too long."]
    : [make("b", "Why? "), `${count} words share one delivery. Guessing and checking make it longer, ${ms(all)} instead of ${ms(alone)}, but not ${count} times as long. `,
      more < .18 * alone ? `A row more adds only ${ms(more)}: ${fetching} takes most of the time, and that is done once for all rows.`
        : `A row more adds ${ms(more)}: ${fetching} is done once for all rows, but calculating took much of the time, too. Other programs at work make it longer.`]);
  const bytes = large * (run.numbers === "float16" ? 2 : 4);
  put("work", "A delivery is one pass of the model: all its weights come from memory. A word is a token here: a full stop counts, and so does a part of a word. "
    + `At work: ${isOurs(run) ? "GPT-2s of this project that write fairy tales" : "GPT-2"} (${run.parameters.map(size => rounded(size / 1e6, 2)).join(" and ")} million weights, ${run.numbers}), `
    + `one text at a time, on ${run.processor}: ${rounded(bytes / 1e6, 2)} MB in ${ms(alone)}, ${rounded(bytes / alone / 1e9, 2)} GB/s. `
    + "Times are measured; how much of them is fetching, we conclude. Other texts gain more, or less.");
}

// Lay a run out.
function showRace(run) {
  race.lanes = [laneOf("alone", "Large model alone", roundsAlone(run.alone), run),
    laneOf("together", run.parameters[1] ? "Large model with guesses of a small one" : "Large model with guesses", run.rounds, run)];
  race.length = Math.max(...race.lanes.map(lane => lane.end)) || 1;
  race.plan = planOf(race.lanes);
  put("lanes");
  for (const lane of race.lanes) drawLane(lane, run);
  for (const show of [showSum, showCost, showWhy]) show(run);
  press("chance", Number(isByChance(run)));
}
