// ---------------------------------------------------------------- the race
// Two lanes on one clock. A fetch is a pass of the large model: all its weights come from memory. Each
// lane has fetches {round, begin, middle, end}: guesses are made from begin to middle, the weights
// come from middle to end. A place is one word of the text that the model says, or is to say.

const race = {lanes: [], length: 1, plan: [], wall: 0, time: 0, playing: false, runs: 0, seen: true, frame: null};

// Seconds on the page: of the first guesses; of a fetch alone, at first; of the check of a word; of reading why one is rejected, where
// the likeliest word decides; where the odds do, of reading the rule, of a guess that is always accepted, of one that chance accepts
// (the first of each kind; then half as long), of one that it rejects; of a look at all of them; of the second round; of all that comes after the first round; of a look at a round without a wrong
// guess; of the end.
const SECONDS = {guesses: 1.3, fetch: 2.6, step: .3, why: 1.3, rule: 2, always: 1.1, yes: 2.4, no: 3.6, look: 1.3, next: 2.4, others: 2.4, right: 1, end: 5};

// The words of a round that are checked, one after the other: the guesses that are accepted, and the
// large model's own. What comes after it is not used.
const stepsOf = ({accepted}) => accepted + 1;

// The large model alone, in rounds without guesses.
const roundsAlone = ({tokens, shown, seconds}) => tokens.map((id, i) => ({draft: [], accepted: 0,
  tokens: [id], sources: ["target"], shown: [shown[i]], seconds: [0, seconds[i]]}));

function laneOf(kind, name, rounds, run) {
  const words = sum(rounds.map(({tokens}) => tokens.length)), most = kind === "alone" ? 1 : mostWords(run);
  let end = 0, left = words;
  const fetches = rounds.map(round => {
    const [drafting, rest] = round.seconds, begin = end, middle = begin + drafting;
    end = middle + rest;
    left -= round.tokens.length;
    // fewer are guessed near the end of the text
    return {round, begin, middle, end, isShort: round.draft.length < most - 1 && left + round.tokens.length === round.draft.length + 1};
  });
  return {kind, name, fetches, end, places: most, isLookUp: !run.parameters[1],
    isSaid: isSaid(run), waits: isWaiting(run), longer: factor(longerOf(run)), rule: run.settings.verification, words};
}

// How long the check of a round is shown: [words checked, seconds], from none to all of them.
function stepsShown(round, {isSaid}) {
  const {accepted, draft, p, q} = round, n = stepsOf(round);
  if (isSaid) return [...range(n).map(i => [i, SECONDS.step]), [n, accepted < draft.length ? SECONDS.why : 0]];
  const kinds = range(n).map(i => i === draft.length ? "free" : i === accepted ? "no" : p[i] >= q[i] ? "always" : "yes");
  return [[0, SECONDS.rule], ...kinds.map((kind, i) => [i + 1, (SECONDS[kind] ?? 0) / (kinds.indexOf(kind) < i ? 2 : 1)])];
}

// When which moment is shown: pieces {from, to, wall, says}, from one time of the race to another in `wall` seconds. First the first
// guesses and their fetch, slowly, then the second, then all others at one speed. Time stops where a guess is rejected for the first
// time, while the words are checked one by one, and where for the first time all are right; where the odds decide, at the first round.
function planOf([alone, together]) {
  const unit = alone.end / alone.fetches.length || 1, [first, next = first] = together.fetches, {middle, end} = first;
  const isRight = ({round}) => round.accepted === round.draft.length, isWrong = one => !isRight(one);
  const key = together.fetches.find(isWrong) ?? first, pace = together.isSaid ? 1 : .6; // quickly to the odds
  const right = together.fetches.find(one => one !== key && one.round.draft.length > 1 && isRight(one));
  const othersWall = clamp(SECONDS.fetch * (race.length - end) / unit, 0, Math.max(SECONDS.others, .1 * alone.fetches.length));
  const fetchWall = pace * SECONDS.fetch * Math.min((end - middle) / unit, 1.6);
  const slow = (from, to, wall, more) => ({from, to, wall, says: `slowed ${rounded(wall / (to - from), 1)}×`, ...more});
  const stop = (at, wall, more) => ({from: at, to: at, wall, says: "paused to read", ...more});
  const check = ({end, round}, steps) =>
    stop(end, sum(steps.map(([, seconds]) => seconds)) + SECONDS.look, {steps: [...steps, [stepsOf(round) + 1, SECONDS.look]]});
  const whole = one => check(one, stepsShown(one.round, together));
  const stops = (together.isSaid ? [whole(key), right && stop(right.end, SECONDS.right)]
    : [whole(first), key !== first && check(key, stepsShown(key.round, together).slice(-1))]).filter(Boolean);
  const cuts = [...new Set([end, next.end, ...stops.map(({from}) => from), race.length])].sort((a, b) => a - b);
  return [middle > 0 && slow(0, middle, pace * SECONDS.guesses), slow(middle, end, fetchWall), cuts.flatMap((to, i) => [
    i > 0 && (to <= next.end ? slow(end, to, SECONDS.next, {isFast: true})
      : slow(cuts[i - 1], to, othersWall * (to - cuts[i - 1]) / (race.length - end), {isFast: true, linger: .5})),
    stops.filter(({from}) => from === to)]),
  stop(race.length, SECONDS.end, {isEnd: true})].flat(3).filter(piece => piece && piece.wall > 0);
}

// What is shown at `wall` seconds of the plan; null at its end. checked: words; linger: how much of a round
// still shows what the one before brought; isFast: words come too fast to be followed.
function momentAt(wall) {
  for (const {from, to, wall: length, says, steps, isEnd, isFast, linger} of race.plan) {
    if (wall < length) return {time: from + (to - from) * wall / length, linger, isFast, says: isEnd ? `again: ${Math.ceil(length - wall)}\u00a0s` : says,
      checked: steps ? checkedAt(steps, wall) : Infinity};
    wall -= length;
  }
  return null;
}

// How many words are checked so many seconds after a round has come: steps as in stepsShown.
function checkedAt(steps, wall) {
  for (const [checked, seconds] of steps) {
    if (wall < seconds) return checked;
    wall -= seconds;
  }
  return Infinity;
}

function wallAt(time) {
  let wall = 0;
  for (const {from, to, wall: length} of race.plan) {
    if (time < to) return wall + length * clamp((time - from) / (to - from), 0, 1);
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

const wide = (...text) => make("span.wide", text), millions = size => `${rounded(size / 1e6, 2)} million`;

// Who is at work in a lane, in words.
function whoIn({kind, isLookUp}, run) {
  const [large, small] = run.parameters, smaller = `${rounded(large / small, 2)}\u00a0× smaller`;
  const most = mostWords(run) - 1, isMost = run.rounds.every(({draft}) => draft.length === most);
  if (kind === "alone") return ["predicts the next word. Its ", make("b", "weights"), `, ${bytesIn(run) > 4e7 ? "" : millions(large) + " "}learned numbers`,
    bytesIn(run) > 4e7 && ", are too many for a core’s fast memory", "."];
  const isOther = isOtherText(run) && !isSameText(run), guesses = `guesses ${isMost ? "" : "up to "}${plural(most, "word")}`;
  return [isLookUp ? "looks up what came before" : small < large && smaller, (isLookUp || small < large) && (isOther ? ". " : ", "), isOurs(run) && !isOther && "trained to imitate the large one: ",
    isOther ? "Other dice, other text, same odds." : guesses];
}

function drawLane(lane, run) {
  const of = x => share(x / race.length), isAlone = lane.kind === "alone", [large, small] = run.parameters, side = Math.sqrt(small / large) || .15; // areas are to scale; a look-up has no weights
  lane.large = make("div.pipe.of-target", make("i"));
  // as long as all its fetches for a round are beside one of the large model
  lane.small = isAlone ? null : make("div.pipe.of-draft", {style: {width: share(small ? (lane.places - 1) * small / large : .02), "flex-grow": side}}, make("i"), small && make("small.wide", millions(small), " weights"));
  lane.says = make("p.says");
  const says = `large model ${isByChance(run) ? "draws" : "says"}`;
  const heads = isAlone ? ["processor", says] : lane.isSaid ? ["guess", says] : ["guess, its odds", ["large ", wide("model’s "), "odds"], lane.rule === "token" && ["random", wide(" number"), " < chance"]];
  lane.rows = make("div.rows");
  lane.strip = make("div.strip", lane.fetches.map(({begin, middle, end}) => [
    middle > begin && make("i.of-draft", {style: {left: of(begin), width: of(middle - begin)}}),
    make("i.of-target", {style: {left: of(middle), width: of(end - middle)}})]));
  const n = run.alone.tokens.length, than = lane.words === n ? `instead of ${n}` : `for ${plural(lane.words, "word")}`;
  lane.quote = isAlone ? `${plural(n, "fetch")} for ${plural(n, "word")}` : lane.fetches.length < n && `${plural(lane.fetches.length, "fetch")} ${than}, ${sameIn(run, "every word the same")}`;
  lane.gain = make("span", !isAlone && mostWords(run) > 1 && isMeasured(run) && lane.end < .7 * race.length && ["  ", factor(speedupOf(run)), " as fast"]);
  lane.flag = make("b.flag", {style: {left: of(lane.end)}}, lasting(lane.end), lane.gain);
  lane.count = make("span.count", {"aria-hidden": "true"});
  lane.pending = make("span.pending");
  lane.groups = lane.fetches.map(({round}) => make("span.fetch", round.tokens.map((_, i) =>
    tokenSpan(isAlone ? "plain" : round.sources[i], round.shown[i]))));
  const prompt = plainly(run.prompt), all = lane.fetches.flatMap(({round}) => round.shown.map(plainly));
  lane.text = make("p.written", {dir: "auto"}, make("span.now", make("span.soft", prompt), lane.groups),
    make("span.room", prompt, all)); // keeps the room of the whole text
  $("lanes").append(make("section.lane." + lane.kind, {"aria-label": lane.name},
    make("div.row.between", make("h2", lane.name), make("span.who", whoIn(lane, run)), lane.count),
    make("p.hush", `${plural(lane.words, "word")} from ${plural(lane.fetches.length, "fetch")}, ${lasting(lane.end)}.`),
    make("div", {"aria-hidden": "true"}, lane.says, make("div.road",
      make("div.memory", lane.small && make("span.small", {style: {"flex-grow": side}}, small ? ["small model", make("i", {style: width(side)})] : "look-up"),
        make("span.slab", make("small", "memory"), make("b", "large model"), make("small", millions(large), " weights"))),
      make("div.pipes", lane.small, lane.large),
      make(`div.places${lane.places > 7 ? ".many" : ""}${lane.isSaid || isAlone ? "" : ".odds"}`, make("div.place.head", heads.map(name => make("span", name))), lane.rows)),
    make("div.time", lane.strip, lane.flag, !isAlone && lane.end < .7 * race.length && make("div.key", ["guessing", "fetch"].map((name, i) => make("span", make("span.swatch.of-" + ["draft", "target"][i]), name)))), lane.text)));
}

// Whether the large model says a word at each place: the likeliest, or that of the noise it shares.
const isSaid = run => !isByChance(run) || run.settings.coupled;

// How many guesses of a round there are at a time.
const guessedAt = ({round, begin, middle}, time) =>
  Math.floor(round.draft.length * (middle > begin ? clamp((time - begin) / (middle - begin), 0, 1) : 1) + 1e-9);

// The words of a fetch, a row each: the guess, what the large model says, and what comes of it; while
// guesses are made, while the weights come, and when so many words are checked.
function placesOf(lane, one, time, checked) {
  const {draft, accepted, tokens, sources, p, q, coins} = one.round, n = draft.length, isLast = one === lane.fetches.at(-1);
  const guessed = guessedAt(one, time), isCome = !lane.isSaid && time > one.end - 1e-12, odds = (x, more) => make("small", ` ${percent(x, more)}`), own = i => make("span.mark." + sources[i], bare(words[tokens[i]]));
  const rows = range(lane.places).map(i => {
    const guess = i < guessed && bare(words[draft[i]]), isMore = i === n && guessed === n;
    const row = (kind, given, says, verdict) => make("div.place" + kind, [given, says, verdict].map(cell => make("span", cell)));
    const isWrong = i === accepted && i < Math.min(n, tokens.length) && checked > i;
    const more = i < n && !lane.isSaid ? moreDigits(p[i], q[i]) : 0;
    const given = guess ? [make(isWrong ? "s" : "span", guess), !lane.isSaid && odds(q[i], more)] : isMore && make("small", n ? "one more" : lane.small && isLast ? "last word" : "next word");
    if (i > n) return row(".empty.room"); // fewer were guessed
    if (i > guessed || checked <= Math.min(i, accepted))
      return row(guess ? ".guess" : isMore ? "" : ".empty", given, given && (isCome && i < n ? odds(p[i], more) : "…"));
    if (i > accepted || i >= tokens.length) return row(".off", guess || given, "", given && (i > accepted && one.round.examined > accepted ? `dropped: built on ${quoted(draft[accepted])}` : "not used"));
    if (i === n) return row("", given, own(i), n > 0 ? make("span.bonus", "free", wide(" extra"), " word") : lane.small && "its own word");
    if (lane.isSaid || lane.rule !== "token") return row(i < accepted ? ".good" : ".wrong", given, !lane.isSaid ? odds(p[i], more) : i < accepted ? guess : own(i),
      i < accepted ? "✓ accepted" : lane.isSaid ? "✗ replaced" : ["✗ → “", own(i), "”"]);
    const [number, chance] = apart(coins[i], p[i] / q[i]), isSure = p[i] >= q[i], isKept = i < accepted;
    return row(isKept ? ".good" : ".wrong", given, [odds(p[i], more), wide(make("small", isSure ? "" : ` → chance ${chance}\u00a0%`))],
      isSure ? "✓ always" : [isKept ? `✓ ${number} < ` : `✗ ${number} ≥ `, `${chance}\u00a0%`, !isKept && [" → “", own(i), "”"]]);
  });
  return lane.small ? rows : [...rows, make("div.place.empty.rest", "the words after it have to wait: they depend on it")];
}

// How many words a round brought, and why so many.
function broughtBy({accepted, draft, tokens, sources}) {
  const all = `${plural(tokens.length, "word")} from one fetch.`;
  if (!draft.length) return `Nothing was guessed: ${all}`;
  if (tokens.length === accepted) return `${accepted} accepted: ${all}`;
  if (sources[accepted] === "bonus") return `All accepted: the next word comes free. ${accepted} + 1 = ${all}`;
  return `${accepted} accepted + 1 replaced = ${all}${accepted + 1 < draft.length ? " Guesses behind it are dropped: they built on it." : ""}`;
}

// What became of the i-th guess of a round, in words. isSaid: of the lane; rule: of the run
function judged(round, i, {isSaid, rule}) {
  const {draft, accepted, tokens, p, q, coins} = round, own = i < tokens.length && quoted(tokens[i]);
  if (i === draft.length || i >= accepted && !own) return broughtBy(round);
  const kept = i < accepted, says = `${quoted(draft[i])}: `;
  if (isSaid) return says + (kept ? "the large model says the same. Accepted." : `the large model says ${own}. Rejected and replaced.`);
  if (rule === "token" && p[i] >= q[i]) return `${says}the large model’s odds are ${p[i] > q[i] ? "higher" : "the same"}. Always accepted.`;
  if (rule !== "token") return says + (kept ? "accepted." : `rejected. ${own} is drawn instead.`);
  const [number, chance] = apart(coins[i], p[i] / q[i]);
  return `${says}chance ${chance}\u00a0%, random number ${number}\u00a0%: ${kept ? "below, so accepted." : `rejected. ${own} comes instead: the large model says it more often than the small one.`}`;
}

// A moment of a lane, as momentAt returns it: of its last fetch, so many words are checked.
function showLane(lane, {time, checked = Infinity, linger = 0, isFast}) {
  const all = lane.fetches, done = all.filter(({end}) => end <= time + 1e-12).length;
  const now = all[done], last = all[done - 1], isAlone = !lane.small;
  // what was written stays in sight while the next weights begin to come
  const stays = now ? (isAlone ? Math.max(.25, linger) : linger) * (now.end - now.begin) : 0;
  const isLook = last && (!now || time - last.end <= stays + 1e-12), shown = isLook ? last : now;
  const {round} = shown, n = round.draft.length, steps = isLook ? isAlone ? Infinity : checked : 0;
  const part = (from, to) => share(now ? (time - from) / (to - from || 1) : 1), isStart = now && time <= now.begin + 1e-12 && last;
  // words are counted one by one, as they are checked
  const isJudged = steps >= stepsOf(round), counted = done - Number(Boolean(isLook && !isJudged)), guesses = isLook && isJudged ? 0 : guessedAt(shown, time);
  const written = sum(all.slice(0, counted).map(({round}) => round.tokens.length)) + (isLook && !isJudged ? steps : 0);
  const rows = placesOf(lane, shown, time, steps), isOver = !now && checked === Infinity;
  if (isOver && lane.quote) { // in their room
    rows.forEach(row => row.classList.add("room"));
    rows.unshift(make("p.quote", lane.quote));
  }
  lane.rows.replaceChildren(...rows);
  lane.large.style.setProperty("--read", isStart && !isAlone ? "100%" : part(now?.middle, now?.end));
  if (lane.small) lane.small.style.setProperty("--read", isStart ? "100%" : part(now?.begin, now?.middle));
  lane.large.classList.toggle("over", isOver);
  lane.small?.classList.toggle("over", isStart || !now || time > now.middle);
  lane.says.textContent = isOver ? isAlone ? "One fetch wrote one word." : `One fetch wrote ${(lane.words / all.length).toFixed(2)} words on average.`
    : isAlone && time < race.lanes[1].fetches[0].middle ? "" // first things first
    : !isAlone && shown.isShort && !isLook && !isFast ? n ? `Near the end: only ${plural(n, "more word")} to guess.` : "Last word: nothing left to guess."
    : isFast && !isAlone ? linger ? "The other fetches, faster." : `Each weight, once fetched, serves all ${plural(lane.places, "word")}: ${lane.longer} the time of one.`
    : isLook && !isAlone ? steps > stepsOf(round) ? broughtBy(round) : steps ? judged(round, steps - 1, lane)
      : lane.isSaid || lane.rule !== "token" ? "Which guesses are accepted?" : "Odds as high or higher: always accepted. Lower: with chance large odds ÷ small odds."
    : time < shown.middle ? `The ${lane.isLookUp ? "look-up" : "small model"} guesses the next ${n > 1 ? `${n} words` : "word"}.`
    : n ? `Word ${written + n + 1} depends on ${n > 1 ? `words ${written + 1} to` : "word"} ${written + n}. With ${n > 1 ? "guesses in their" : "a guess in its"} place, one fetch answers ${n > 1 ? `all ${n + 1}` : "both"}.`
    : `One fetch, one word${lane.waits ? ": the processor waits" : ""}.`;
  lane.groups.forEach((group, i) => { group.hidden = i >= counted; });
  lane.pending.replaceChildren(...range(guesses).flatMap(i => tokenSpan("guess", words[round.draft[i]])));
  if (guesses) lane.groups[counted].before(lane.pending);
  lane.count.replaceChildren(make("b", plural(written, "word")), " from ", make("b", plural(done, "fetch")));
  lane.strip.style.setProperty("--now", time < lane.end ? share(time / race.length) : "102%");
  lane.flag.classList.toggle("room", time < lane.end);
  lane.gain.classList.toggle("room", time < race.length);
  const group = lane.groups[Math.max(0, counted - 1)]; // a long text runs along
  lane.text.scrollTop = group.offsetTop + group.offsetHeight - lane.text.clientHeight;
}

// Where the clock stands, and how it runs.
const showClock = (says = "") =>
  put("now", make("b", lasting(race.time)), " ", make("small", {"aria-hidden": "true"}, says));

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
}

// From this moment on, so many times; time is that of the clock, however slowly a machine draws.
function play(runs = 1) {
  pause();
  race.playing = true;
  race.runs = runs;
  $("play").textContent = "Pause";
  race.wall = race.time >= race.length ? 0 : wallAt(race.time);
  let last = performance.now(), drawn = 0;
  const tick = now => {
    if (race.seen) race.wall += Math.min(now - last, 1000) / 1e3;
    last = now;
    const moment = momentAt(race.wall);
    if (!moment && --race.runs < 1) return finish();
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
  $("play").textContent = "Again";
  announce(`The end: ${$("sum").textContent}`);
}

$("play").addEventListener("click", () => race.playing ? pause() : play());
$("clock").addEventListener("input", () => { pause(); showMoment($("clock").value / 1000 * race.length); });
new IntersectionObserver(([{isIntersecting}]) => { race.seen = isIntersecting; }).observe($("lanes"));
addEventListener("beforeprint", () => { pause(); showMoment(race.length); });

// ---------------------------------------------------------------- what came out

// How many times as fast: of all races the one in the middle, which is the one that is shown.
function showSum(run) {
  const all = speedupsOf(run);
  if (mostWords(run) === 1) return put("sum", "Nothing was guessed in this text: the large model wrote it alone.");
  put("sum", make("b", `${isMeasured(run) ? factor(speedupOf(run)) : "…"} as fast, ${sameIn(run, "exactly the same text")}. `),
    make("span.soft", all.length > 2 && `One text, the middle of ${all.length} runs (${Math.min(...all).toPrecision(2)} to ${factor(Math.max(...all))}).`));
}

// The time of a word as bars, and the sum that closes the gap: the shorter, the faster.
function showCost(run) {
  const {alone, guessing, rest, written} = costsOf(run), word = (guessing + rest) / written;
  const fetch = Math.min(alone, rest) / written, more = Math.max(0, rest - alone) / written;
  const bar = (kind, seconds) => make("i." + kind, {style: width(seconds / Math.max(alone, word))});
  const row = (name, seconds, ...all) => [make("span", name), make("div", all), make("b", `${ms(seconds)} a word`)];
  const part = (kind, ...says) => make("span", make("span.swatch." + kind), says);
  put("cost", mostWords(run) > 1 && [row([wide("large model "), "alone"], alone, bar("of-target", alone)),
    row("with guesses", word, bar("of-draft", guessing / written), bar("of-target", fetch), bar("more", more)),
    make("p.legend", part("of-draft", `guessing ${ms(guessing / written)}`),
      part("of-target", `one fetch for ${written.toFixed(2)} words: ${ms(Math.min(alone, rest))} / ${written.toFixed(2)} = ${ms(fetch)}`),
      part("more", `checking more words ${ms(more)}`))]);
}

// How many times as long as a fetch for one word those for the most words took, on average.
function longerOf(run) {
  const full = run.rounds.filter(({draft}) => draft.length === mostWords(run) - 1);
  return sum(full.map(({seconds}) => seconds[1])) / full.length / costsOf(run).alone;
}

// What one more word to check adds to a fetch, in seconds; and whether the fetch itself takes most of the time.
const moreOf = ({alone, rest, guesses}) => Math.max(0, rest - alone) / Math.max(1, guesses);
function isWaiting(run) {
  const costs = costsOf(run);
  return moreOf(costs) < .18 * costs.alone;
}

function showWhy(run) {
  const costs = costsOf(run), {alone, guessing, rest, written} = costs, n = mostWords(run), [large] = run.parameters, bytes = bytesIn(run);
  const all = guessing + rest, count = written.toFixed(2);
  put("why", n === 1 ? "" : all > written * alone ? [make("b", "Why was it not faster? "), `With guesses, a fetch took ${ms(all)} instead of ${ms(alone)} and brought ${count} words: `,
    written < 1 + .5 * (n - 1) ? `only ${percent(acceptedIn(run) / (examinedIn(run) || 1))} of the guesses that were checked were accepted.` : rest - alone > guessing ? "checking took too long." : "guessing took too long."]
    : [make("b", "Why? "), isWaiting(run) ? `One fetch now serves ${count} words. One more word needs as much arithmetic as the first, but adds only ${percent(moreOf(costs) / alone)}: fetching takes most of the time.`
      : `Fetching ${millions(large)} weights now serves ${count} words, but computing took much of the time, too. Other programs at work make it longer.`]);
  put("work", `In a fetch, the large model reads all its weights from memory and computes with them, once. A word is a token: a full stop counts, and so does a part of a word. `
    + `At work: ${isOurs(run) ? "GPT-2s of this project that write fairy tales" : "GPT-2"} (${run.parameters.map(size => rounded(size / 1e6, 2)).join(" and ")} million weights, ${run.numbers}), `
    + `one text at a time, on ${run.processor}: ${rounded(bytes / 1e6, 2)} MB in ${ms(alone)}, ${rounded(bytes / alone / 1e9, 2)} GB/s. `
    + `Times of passes are measured. ${n === 1 ? "" : `How much of a pass is fetching is not seen, but inferred: for ${n} words it took ${times(longerOf(run))} the time of one for one word, ${ms(moreOf(costs))} more for each word more. `}The example was chosen for being readable; other texts gain more, or less.`);
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
