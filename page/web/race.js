// ---------------------------------------------------------------- the race
// Two lanes on one clock. A delivery is a pass of the large model: all its weights come from memory.
// Each lane has deliveries {round, before, begin, middle, end}: guesses are made from begin to middle,
// the weights come from middle to end. before is the word that stands before it in the text.

const race = {lanes: [], length: 1, plan: [], wall: 0, time: 0, playing: false, seen: true, frame: null};

// Seconds on the page: of a delivery alone, at first; of a row that is checked; of a look at all rows;
// of what comes after the first rounds with guesses; of the end. FAST: deliveries a second that no eye
// can follow one by one.
const SECONDS = {delivery: 2, row: .35, look: 1, others: 8, end: 6}, N_SLOW = 2, FAST = 2;
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

// When which moment is shown: pieces {from, to, wall, bend}, from one time of the race to another in
// `wall` seconds. At first slowly, and the clock is held while the rows of a round are checked; then
// ever faster, from the same speed on: at the part x of a piece, expm1(bend x) / expm1(bend) of it.
function planOf([alone, together]) {
  const unit = alone.end / alone.deliveries.length || 1, plan = [];
  const slow = (from, to, most) => ({from, to, wall: Math.min(most, SECONDS.delivery * (to - from) / unit), bend: 0});
  for (const {begin, end, round} of together.deliveries.slice(0, N_SLOW))
    plan.push(slow(begin, end, 6), {from: end, to: end, wall: SECONDS.row * (round.accepted + 1) + SECONDS.look, bend: 0, isLook: true});
  const rest = slow(plan.at(-1).to, race.length, Infinity);
  for (let i = 0; i < 50 && rest.wall > SECONDS.others; i++) rest.bend = Math.log1p(rest.bend * rest.wall / SECONDS.others) || 1;
  plan.push({...rest, wall: Math.min(rest.wall, SECONDS.others)}, {from: race.length, to: race.length, wall: SECONDS.end, bend: 0, isEnd: true});
  return plan.filter(({wall}) => wall > 0);
}

// What is shown at `wall` seconds of the plan: {time, says, checked: rows, isFast}; null at its end.
function momentAt(wall) {
  for (const {from, to, bend, isLook, isEnd, wall: length} of race.plan) {
    const part = wall / length;
    if (part >= 1) { wall -= length; continue; }
    const speed = (to - from) / length * (bend ? bend * Math.exp(bend * part) / Math.expm1(bend) : 1);
    return {time: from + (to - from) * (bend ? Math.expm1(bend * part) / Math.expm1(bend) : part),
      says: isLook ? "clock held" : isEnd ? `again in ${Math.ceil(length - wall)}\u00a0s` : `${rounded(1 / speed, 1)}\u00a0× slower`,
      checked: isLook ? Math.floor(wall / SECONDS.row) : Infinity,
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
  lane.small = isAlone ? null : pipe("of-draft", make("b", make("span", "small model", make("span.wide", small < large ? `, ${rounded(large / small, 2)} × smaller, guesses` : " guesses"))));
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
    make("div.time", lane.strip, lane.flag), lane.text,
    !isAlone && make("div.legend", ["draft", "correction", "bonus"].map(kind => make("span.mark." + kind, BRIEFLY[kind]))))));
}

const BRIEFLY = {draft: "right guess", correction: "replacement", bonus: "extra word"};
const deliveries = n => n === 1 ? "1 delivery" : `${n} deliveries`;

// The rows of a delivery: each takes a word, and says the next one. What a row shows: while guesses
// are made, while the weights come, and when they have come and it is checked.
function placesOf(lane, {round, before, begin, middle}, time, isChecked) {
  const n = round.draft.length, part = middle > begin ? clamp((time - begin) / (middle - begin), 0, 1) : 1;
  const guessed = Math.floor(n * part + 1e-9), isAlone = lane.kind === "alone";
  return range(lane.places).map(i => {
    const arrow = make("i", "→"), isGuess = i < guessed, guess = isGuess && bare(words[round.draft[i]]);
    if (i > guessed || i > n) return make("div.place.empty", make("span", i > n && isAlone ? "not known yet" : ""), i > n && isAlone && arrow);
    const given = make("span", i ? bare(words[round.draft[i - 1]]) : bare(before));
    if (!isChecked(i)) return make(isGuess ? "div.place.guess" : "div.place", given, arrow, isGuess ? [make("span.mark", guess), make("small", "guess")] : make("b", "?"));
    if (i < round.accepted) return make("div.place.good", given, arrow, make("span.mark.draft", guess), make("b", "✓"));
    if (i > round.accepted || i >= round.tokens.length) return make("div.place.off", given, arrow, make("small", "void"));
    return make("div.place", given, arrow, isGuess && make("s", guess), make("span.mark." + round.sources[i], bare(words[round.tokens[i]])));
  });
}

// How many words a round brought, and why so many.
function broughtBy({draft, accepted, tokens, sources}) {
  if (!draft.length) return "one row: one word";
  const own = tokens.length > accepted ? ` + 1 ${sources[accepted] === "bonus" ? "extra" : "replacement"}` : "";
  return `${accepted} right${own} = ${plural(tokens.length, "word")}`;
}

// A moment of a lane, as momentAt returns it: of its last delivery, so many rows are checked. Of fast
// deliveries only what they brought is shown.
function showLane(lane, {time, checked = Infinity, isFast = false}) {
  const all = lane.deliveries, done = all.filter(({end}) => end <= time + 1e-12).length;
  const now = all[done], last = all[done - 1], isRunning = isFast && Boolean(now);
  // alone, what was written stays in sight while the next weights begin to come
  const linger = lane.kind === "alone" && now ? .25 * (now.end - now.middle) : 0;
  const isLook = last && (!now || isFast || time - last.end <= linger + 1e-12), shown = isLook ? last : now;
  const {round} = shown, n = round.draft.length, isJudged = !lane.small || checked > round.accepted;
  lane.rows.replaceChildren(...placesOf(lane, shown, time, i => isLook && (isJudged || i < checked)));
  lane.large.classList.toggle("runs", isRunning && race.playing);
  lane.large.style.setProperty("--read", share(now && !isRunning && !(isLook && lane.small) ? (time - now.middle) / (now.end - now.middle) : 1));
  lane.says.textContent = isRunning ? "one delivery after the other" : isLook && lane.small ? isJudged ? broughtBy(round) : "are the guesses right?"
    : time < shown.middle ? "" : n ? `one delivery for ${n + 1} rows` : "one delivery for one row";
  if (lane.small) {
    const guessing = now && now.middle > now.begin && !isLook ? (time - now.begin) / (now.middle - now.begin) : 0;
    lane.small.style.setProperty("--read", share(guessing < 1 ? now ? guessing * now.round.draft.length % 1 : 0 : 1));
  }
  const counted = done - Number(done > 0 && isLook && !isJudged);
  lane.groups.forEach((group, i) => group.classList.toggle("room", i >= counted));
  const written = sum(all.slice(0, counted).map(({round}) => round.tokens.length));
  lane.count.replaceChildren(make("b", plural(written, "word")), " from ", make("b", deliveries(done)));
  lane.strip.style.setProperty("--now", share(time < lane.end ? time / race.length : 1));
  lane.flag.classList.toggle("room", time < lane.end);
  const group = lane.groups[Math.max(0, done - 1)]; // a long text runs along
  lane.text.scrollTop = group.offsetTop + group.offsetHeight - lane.text.clientHeight;
}

// Where the clock stands, and how it runs.
const showClock = (says = race.time < race.length ? "paused" : "the end") =>
  put("now", make("b", ms(race.time, 1)), " ", make("small", {"aria-hidden": "true"}, says));

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

// How many times as fast guessing was: of all races the one in the middle.
const speedupOfRun = run => medianOf(turnsOf(run), "speedup");

// The sum of the picture: as many words as the lane with guesses has, over its deliveries.
function showSum(run) {
  const turns = turnsOf(run), isMeasured = turns.length > 2 || !asking;
  const n = mostWords(run), all = turns.map(turn => turn.speedup);
  if (n === 1) return put("sum", "Nothing was guessed in this text: the large model wrote it alone.");
  const {longer, guessing, passes, count} = costsOf(run);
  const same = isOtherText(run) ? "same odds" : isSameText(run) ? "same words" : "same words, but for a tie";
  put("sum", make("b", `${isMeasured ? factor(speedupOfRun(run)) : "…"} as fast, ${same}: `),
    `${plural(count, "word")} / (${deliveries(passes)} × (${guessing.toFixed(2)} + ${longer.toFixed(2)})) ≈ ${(count / passes / (longer + guessing)).toPrecision(2)}. `,
    all.length > 2 && make("span.soft", `Middle of ${all.length} races (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)}).`));
}

// The two numbers of the sum as bars, in deliveries of the large model alone.
function showCost(run) {
  const {longer, guessing, passes, count} = costsOf(run), n = mostWords(run), whole = Math.max(1, longer + guessing);
  const bar = (kind, size, says) => make("i." + kind, {style: width(size / whole)}, says), wide = text => make("span.wide", text);
  put("cost", n > 1 && [make("span", "alone"), make("div", bar("of-target", 1, ["1", wide(" delivery")])), make("b", "1 word"),
    make("span", "with guesses"), make("div", bar("of-draft", guessing, [wide("guesses "), guessing.toFixed(2)]), bar("of-target", Math.min(1, longer), ["1", wide(" delivery")]),
      bar("more", Math.max(0, longer - 1), [`+ ${Math.max(0, longer - 1).toFixed(2)}`, wide(` for ${plural(n - 1, "row")} more`)])), make("b", `${(count / passes).toFixed(1)} words`)]);
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
  const round = longer + guessing, gain = count / passes, fetching = `fetching ${rounded(large / 1e6, 2)} million weights`;
  put("why", n === 1 ? "" : gain < round ? [make("b", "Why was it not faster? "), `A round took the time of ${round.toFixed(2)} deliveries (guessing ${guessing.toFixed(2)}, checking ${longer.toFixed(2)}) and brought ${gain.toFixed(2)} words: `,
    gain < 1 + .5 * (n - 1) ? `guesses were right in only ${percent(acceptedIn(run) / (examinedIn(run) || 1))} of all cases.` : longer - 1 > guessing ? "checking took too long." : "guessing took too long."]
    : [make("b", "Why? "), `A row more makes a delivery ${Math.round(100 * more)}\u00a0% longer; the rest is shared by all its rows. `,
      more < .18 ? `So, we conclude, ${fetching} takes most of the time, and that is done once for all rows.`
        : `That is, we conclude, ${fetching}. But here calculating took much of the time, too; other programs at work make it longer.`]);
  const bytes = large * (run.numbers === "float16" ? 2 : 4);
  put("work", `At work: ${isOurs(run) ? "GPT-2s of this project that write fairy tales" : "GPT-2"} (${run.parameters.map(size => rounded(size / 1e6, 2)).join(" and ")} million weights, ${run.numbers}), `
    + `one text at a time, on ${run.processor}: ${rounded(bytes / 1e6, 2)} MB in ${ms(one, 1)}, ${rounded(bytes / one / 1e9, 2)} GB/s. `
    + "Other texts gain more, or less. A delivery is one pass of the model, a row a place whose next word it says; words are tokens, some of them parts of words. Times are measured; what of them is fetching is concluded.");
}

// Lay a run out.
function showRace(run) {
  race.lanes = [laneOf("alone", "Large model alone", roundsAlone(run.alone), run),
    laneOf("together", "Large model with guesses", run.rounds, run)];
  race.length = Math.max(...race.lanes.map(lane => lane.end)) || 1;
  race.plan = planOf(race.lanes);
  put("lanes");
  for (const lane of race.lanes) drawLane(lane, run);
  for (const show of [showSum, showCost, showWhy]) show(run);
  press("chance", Number(isByChance(run)));
}
