// ---------------------------------------------------------------- asking the server

let asking = null; // the AbortController of what is being asked

// Answers are lines of JSON: progress and a first row, then the result or an error.
async function ask(body, tellRow) {
  if (asking) asking.abort();
  const mine = asking = new AbortController();
  const busy = (share, says) => { $("bar").value = share; $("doing").textContent = says; };
  $("progress").classList.remove("room");
  busy(0, "Reading the prompt");
  try {
    const response = await fetch("/api/race", {method: "POST", signal: mine.signal,
      body: JSON.stringify(body), headers: {"X-Token": live.token}});
    let result = null;
    for await (const line of linesOf(response)) {
      if (line.error) throw new Error(line.error);
      if (line.row) { complain(""); tellRow(line.row); }
      if (line.total) busy(line.done / line.total, `Turn ${line.done} of ${line.total}`);
      if (line.result) result = line.result;
    }
    if (!result) throw new TypeError("the answer has no end");
    return result;
  } catch (error) {
    if (mine.signal.aborted) return null; // something newer was asked
    const below = state.base && ` Below is still the run of “${state.base.prompt.slice(0, 40)}”.`;
    complain((error instanceof TypeError
      ? "The server does not answer: is the command play still running?" : sentence(error.message)) + (below || ""));
    return null;
  } finally {
    if (asking === mine) { asking = null; $("progress").classList.add("room"); }
    $("controls").classList.remove("room");
    if (state.base) showSum(state.base); // what was cancelled has one turn
  }
}

async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const {done, value} = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
    if (done) return;
  }
}

// An input for a field of the form; name is that of a setting.
function field(name) {
  const {label, value, least, most, step} = live.form.fields[name];
  return make("label", label + " ",
    make("input", {name, type: "number", min: least, max: most, step, value, required: ""}));
}

// The first turn of both decoders is shown at once; the others follow while it is played.
async function askRace() {
  const form = $("controls"), {value} = form.prompt, {most} = live.form.prompt;
  form.prompt.setCustomValidity(value.length <= most ? ""
    : `At most ${most} characters, please; these are ${value.length}.`);
  if (!form.reportValidity()) return;
  const body = {prompt: value};
  for (const name in live.form.fields) body[name] = Number(form[name].value);
  pause();
  const run = await ask(body, first => { begin(first); start(); });
  if (!run) return;
  const moment = race.time / race.length;
  begin(run);
  showMoment(moment * race.length);
  if (race.playing) play(race.runs); // on the new clock
  announce(`Done: ${$("sum").textContent}`);
}

// ---------------------------------------------------------------- saving

// This page's own source, with the run in it in place of the server.
function save() {
  const json = JSON.stringify(state.all).replace(/</g, "\\u003c");
  const from = SOURCE.indexOf('id="data">') + 'id="data">'.length;
  const parts = ["<!doctype html>\n", SOURCE.slice(0, from), json,
    SOURCE.slice(SOURCE.indexOf("<\/script>", from))];
  const address = URL.createObjectURL(new Blob(parts, {type: "text/html"}));
  make("a", {href: address, download: "run.html"}).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  $("saved").textContent = "saved as run.html";
}

// ---------------------------------------------------------------- the start

function showBase(run) {
  state.base = run;
  for (const show of [showHead, showRace, showMicroscope, showPays]) show(run);
}

// Of a run and its other one, each part takes the room of the taller: nothing jumps from one to the other.
const PARTS = ["lanes", "result", "easy", "microscope"];
const freeRoom = () => PARTS.forEach(id => $(id).style.removeProperty("min-height"));
function keepRoom(runs) {
  freeRoom();
  const heights = runs.map(run => { showBase(run); showMoment(race.length); return PARTS.map(id => $(id).offsetHeight); });
  PARTS.forEach((id, i) => $(id).style.setProperty("min-height", Math.max(...heights.map(one => one[i])) + "px"));
}
let wideness = innerWidth;
addEventListener("resize", () => { // not when the bar of a phone's browser goes
  if (innerWidth !== wideness) freeRoom();
  wideness = innerWidth;
});

// A run has come, and with it another one: of one, the words are the likeliest; of the other, they
// are drawn by chance.
function begin(run) {
  state.all = run;
  $("views").classList.remove("waiting"); // from now on nothing above what is there appears
  $("controls").classList.remove("room");
  Object.assign(words, run.words, run.other?.words);
  keepRoom(run.other ? [run.other, run] : [run]);
  $("chance").classList.toggle("room", !run.other); // it is still to come
}

// Play from the beginning; without motion, the end is shown.
function start() {
  showMoment(still.matches ? race.length : 0);
  if (!still.matches) play(2);
}

$("chance").querySelectorAll("button").forEach((element, i) => element.addEventListener("click", () => {
  if (isByChance(state.base) === Boolean(i)) return;
  showBase(state.base === state.all ? state.all.other : state.all);
  start();
}));

if (live) {
  const form = $("controls");
  form.hidden = $("progress").hidden = false;
  form.prompt.value = live.form.prompt.value;
  for (const name in live.form.fields)
    if (name === "K" || name === "temperature") $("run").before(field(name)); // the others are folded
    else $("settings").append(field(name));
  for (const prompt of live.form.prompts) $("prompts").append(button(prompt, null, () => {
    form.prompt.value = prompt;
    askRace();
  }));
  form.addEventListener("submit", event => { event.preventDefault(); askRace(); });
  form.addEventListener("input", () => form.prompt.setCustomValidity(""));
  form.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("invalid", event => { // what is wrong is in sight
    if (event.target.closest("details")) event.target.closest("details").open = true;
  }, true);
  $("cancel").addEventListener("click", () => { if (asking) asking.abort(); });
  $("save").addEventListener("click", save);
  askRace();
} else {
  begin(page);
  start();
}
