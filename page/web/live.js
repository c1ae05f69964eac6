// ---------------------------------------------------------------- asking the server

let asking = null; // the AbortController of what is being asked
const FIRST = ["K", "temperature"]; // the fields that are not folded away
const RANDOM = .8; // a temperature at which words are drawn at random

// Answers are lines of JSON: progress and rows, then the result or an error.
async function ask(name, body, doing, row) {
  if (asking) asking.abort();
  const mine = asking = new AbortController();
  const busy = (share, says) => {
    $("bar").value = share;
    $("doing").textContent = says;
  };
  $("progress").hidden = false;
  busy(0, doing);
  try {
    const response = await fetch("/api/" + name, {method: "POST", signal: mine.signal,
      body: JSON.stringify(body), headers: {"X-Token": live.token}});
    let result = null;
    for await (const line of linesOf(response)) {
      if (line.error) throw new Error(line.error);
      if (line.row) row(line.row);
      if (line.total) busy(line.done / line.total, `${doing} ${line.done} of ${line.total}`);
      if (line.result) result = line.result;
    }
    if (!result) throw new TypeError("the answer has no end");
    return result;
  } catch (error) {
    if (mine.signal.aborted) return null; // something newer was asked
    complain(error instanceof TypeError
      ? "The server does not answer: is python main.py play still running?" : error.message);
    return null;
  } finally {
    if (asking === mine) { asking = null; $("progress").hidden = true; }
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
function field(name, value) {
  const {label, least, most, step = 1} = live.form.fields[name];
  return make("label", label + " ",
    make("input", {name, type: "number", min: least, max: most, step, value, required: ""}));
}

async function askRace() {
  const form = $("controls"), body = {prompt: form.prompt.value};
  for (const name in live.form.fields) body[name] = Number(form[name].value);
  if (!form.reportValidity()) return;
  complain("");
  const run = await ask("race", body, "Writing the text twice: token");
  if (!run) return askMissing(); // of the run before
  showAll(run);
  announce(`Done: ${plural(run.figures.rounds, "round")}, speedup ${times(run.speedup)}`);
  await askMissing(); // the costs are measured before anything moves
  if (run === state.base && state.view === "race" && race.time === 0) playFirst();
}

// The run with the likeliest words, or with words drawn by chance: the page of play has both.
$("chance").hidden = !live && !page.other;
opened.push(name => (name === "microscope" ? $("edits") : $("about-texts")).before($("chance")));
function switchTo(chance) {
  if (chance === state.base.settings.temperature > 0) return;
  if (live) {
    $("controls").temperature.value = chance ? RANDOM : 0;
    askRace();
  } else showAll(state.base === page ? page.other : page);
}
$("chance").querySelectorAll("button").forEach((element, i) =>
  element.addEventListener("click", () => switchTo(i === 1)));

async function askWhatIf(edits, place) {
  const coins = edits.coins.map(([index, u]) => ({index, u}));
  const body = {...state.base.settings, coins, changes: edits.changes};
  complain("");
  const run = await ask("what_if", body, "Writing on: token");
  if (!run) return askMissing();
  Object.assign(words, run.words);
  const focused = document.activeElement?.id;
  showMicroscope(run, edits, place);
  if (focused === "coin" && $("coin")) $("coin").focus();
  announce("The text that would have followed. " + $("because").textContent);
  askMissing();
}

// What the views need beside the run: measured costs, and the rules once their view is open.
// Something newer ends it: an answer that it comes to is of state.base.
async function askMissing(all) {
  if (asking || !state.base) return;
  const body = state.base.settings;
  if (!state.costs) {
    state.costs = await ask("costs", body, "Measuring this machine");
    if (!state.costs) return;
    showPays(state.base);
  }
  if (!state.rulesDone && (all || state.view === "rules")) {
    const rows = [];
    const random = {...body, temperature: body.temperature || RANDOM}; // at 0 most write the same
    state.rulesDone = await ask("rules", random, "Every rule and its distribution:", row => {
      rows.push(row);
      state.rules = rows;
      showRules();
    });
  }
}

// ---------------------------------------------------------------- saving

// This page's own source, with the run in it in place of the server.
async function save() {
  const base = state.base;
  $("save").disabled = true;
  do {
    while (asking) await new Promise(done => setTimeout(done, 100));
    await askMissing(true);
  } while (asking); // something newer
  $("save").disabled = false;
  if (base !== state.base) return; // a newer run: it can be saved when it is there
  const data = {...base, costs: state.costs, rules: state.rulesDone ? state.rules : []};
  if (state.run !== state.base) data.what_if = {run: state.run, edits: state.edits};
  const json = JSON.stringify(data).replace(/</g, "\\u003c");
  const begin = SOURCE.indexOf('id="data">') + 'id="data">'.length;
  const end = SOURCE.indexOf("<\/script>", begin);
  const parts = ["<!doctype html>\n", SOURCE.slice(0, begin), json, SOURCE.slice(end)];
  const address = URL.createObjectURL(new Blob(parts, {type: "text/html"}));
  make("a", {href: address, download: "run.html"}).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  announce("saved as run.html");
}

// ---------------------------------------------------------------- the start

function showAll(run) {
  state.base = run;
  state.rules = run.rules || (live ? [] : state.rules);
  state.rulesDone = state.rules.length > 0;
  state.costs = run.costs || state.costs;
  Object.assign(words, run.words);
  for (const show of [showHead, showRace, showMicroscope, showRules, showPays]) show(run);
  $("views").inert = false;
}

if (live) {
  const form = $("controls"), entries = Object.entries(live.form.fields);
  form.hidden = $("save").hidden = $("writes-on").hidden = false;
  form.prompt.value = live.form.prompt.value;
  form.prompt.maxLength = live.form.prompt.most;
  for (const [name, {value}] of entries) {
    if (FIRST.includes(name)) $("run").before(field(name, value));
    else $("settings").append(field(name, value));
  }
  for (const prompt of live.form.prompts) $("prompts").append(button(prompt, null, () => {
    form.prompt.value = prompt;
    askRace();
  }));
  form.addEventListener("submit", event => { event.preventDefault(); askRace(); });
  form.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("invalid", event => { // what is wrong is in sight
    if (event.target.closest("details")) event.target.closest("details").open = true;
  }, true);
  $("cancel").addEventListener("click", () => { if (asking) asking.abort(); });
  $("save").addEventListener("click", save);
  $("views").inert = true;
  // an empty race keeps the place of the first
  showRace({prompt: form.prompt.value, rounds: [], settings: {}, speedup: null, figures: {},
    plain: {tokens: [], shown: [], seconds: [], timed: true}});
  opened.push(name => { if (name === "rules") askMissing(); });
}
$("views").hidden = false; // from now on nothing above it appears
openView(addressed() || (live || page.plain ? "race" : "microscope"));
// a browser that has just started takes the cores that the race is to be measured on
if (live) setTimeout(askRace, 1500);
else {
  showAll(page);
  if (state.view === "race") playFirst();
  if (page.what_if) {
    Object.assign(words, page.what_if.run.words);
    showMicroscope(page.what_if.run, page.what_if.edits);
  }
}
