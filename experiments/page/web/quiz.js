// ---------------------------------------------------------------- predict, then reveal
// A question is {says, options, answer, because}; answer is the index of the right option, known
// from the run. Each is asked once its numbers are there.

let answers = {}, cards = {}; // by the question’s number: whether the guess was right; its form
const choose = (list, seed) => list.length ? list[seed % list.length] : null;

// The text before a position of a round, its last words.
function contextOf(run, r, i) {
  const before = run.rounds.slice(0, r).flatMap(round => round.shown);
  const text = run.prompt + [...before, ...run.rounds[r].shown.slice(0, i)].join("");
  return `“…${text.slice(-40).replace(/\n/g, " ")}”`;
}

function tokensQuestion(run) {
  const full = run.rounds.filter(round => round.examined > 0 && round.draft.length > 1);
  const round = choose(full, run.settings.seed + 1);
  if (!round) return null;
  const n = round.draft.length, own = round.tokens.length > round.accepted;
  return {
    says: `After ${contextOf(run, run.rounds.indexOf(round), 0)} the draft proposed `
      + round.draft.map(quoted).join(" ")
      + ". How many tokens did this one pass of the target add?",
    options: range(n + 1).map(i => String(i + 1)),
    answer: round.tokens.length - 1,
    because: `${round.accepted} of ${plural(n, "draft")} accepted, and one token of the target’s own`
      + (own ? `, ${quoted(round.tokens.at(-1))}` : " if the text had not ended")
      + ". A pass always adds at least one, so a bad draft costs time and never the text.",
  };
}

function bestKQuestion(run) {
  const costs = costsOf(run);
  if (!costs || !state.costs && live || run.figures.acceptance_rate === null) return null;
  const most = mostK(costs), options = [...new Set([1, 2, 4, 8].map(K => Math.min(K, most)))];
  const middle = Math.min(4, most), a = acceptance(run), h = draftingShare(run);
  const gains = options.map(K => speedupOf(a, K, costs.c, verifyCost(costs, K, K), h));
  return {
    says: `A draft is accepted with probability ${a.toFixed(2)} here, drafting a token costs `
      + `${costs.c.toFixed(2)} of a pass, and a pass over ${middle + 1} rows costs `
      + `${verifyCost(costs, middle, middle).toFixed(2)}. `
      + `${h < 1 ? `Look-up drafts in ${percent(h)} of the rounds. ` : ""}Which K is best?`,
    options: options.map(K => "K = " + K),
    answer: gains.indexOf(Math.max(...gains)),
    because: `Expected: ${options.map((K, i) => `K = ${K} gives ${times(gains[i])}`).join(", ")}. `
      + "A longer draft is paid for in full, and its tail is seldom reached.",
  };
}

function verdictQuestion(run) {
  const open = itemsOf(run).filter(({drafted, kind, u, ratio}) =>
    drafted && kind !== "unexamined" && u !== null && ratio < 1);
  const item = choose(open, run.settings.seed);
  if (!item) return null;
  const {r, i, id, p, q, ratio, u, kind} = item;
  return {
    says: `After ${contextOf(run, r, i)} the draft proposed ${quoted(id)} with q = ${number(q)}; `
      + `the target gives it p = ${number(p)}. The coin shows u = ${number(u)}. Was it accepted?`,
    options: ["accepted", "rejected"],
    answer: kind === "draft" ? 0 : 1,
    because: `p/q = ${number(ratio)}, and u is `
      + (u < ratio ? "below it: accepted." : "not below it: rejected."),
  };
}

function residualQuestion(run) {
  // of the token rule: with the block rule a rejected draft may come back
  const round = choose(run.rounds.filter(({residual, support}) => residual?.length > 2 && !support),
    run.settings.seed);
  if (!round) return null;
  const gone = round.draft[round.accepted];
  const others = round.residual.map(([id]) => id).filter(id => id !== gone).slice(0, 3);
  const options = [...others, gone].sort((a, b) => a - b);
  return {
    says: `The draft’s ${quoted(gone)} was rejected, and a token from the residual `
      + "norm(max(0, p − q)) takes its place. Which of these can it not be?",
    options: options.map(quoted),
    answer: options.indexOf(gone),
    because: "A draft is rejected only where p < q, so max(0, p − q) is 0 for it: the residual "
      + `holds what drafting left uncovered. Here it was ${quoted(round.tokens.at(-1))}.`,
  };
}

function distributionQuestion(run) {
  const {seed} = run.settings, mistakes = state.rules.filter(row => row.kind === "mistake");
  const right = choose(mistakes.filter(isRight), seed);
  const lost = mistakes.filter(row => !isRight(row));
  if (!right || lost.length < 3) return null;
  const wrong = [0, 1, 2].map(i => lost[(seed + 5 * i) % lost.length]);
  const options = [...new Set([right, ...wrong])].sort((a, b) => a.name < b.name ? -1 : 1);
  return {
    says: "One of these mistakes leaves the distribution as it is. Which?",
    options: options.map(title),
    answer: options.indexOf(right),
    because: options.map(row => `${title(row)}: ${distanceOf(row, 3)}`).join(", ")
      + ". " + sentence(right.cost),
    then: revealDistributions,
  };
}

function card(n, {says, options, answer, because, then}) {
  const name = "question-" + n, output = make("p.because", {role: "status"});
  const labels = options.map((text, i) => make("label",
    make("input", {type: "radio", name, value: i, required: ""}), make("span", text)));
  const submit = event => {
    event.preventDefault();
    const right = Number(new FormData(form).get(name)) === answer;
    answers[n] ??= right;
    labels[answer].classList.add("answer");
    const score = Object.values(answers);
    output.textContent = `${right ? "Right" : "Not quite: " + options[answer]}. ${because} `
      + `(${score.filter(Boolean).length} of ${score.length} so far)`;
    if (then) then();
  };
  const form = make("form.card.question", {"aria-labelledby": name, submit},
    make("p.eyebrow", `Predict, then reveal · ${n} of 5`),
    make("fieldset", make("legend", {id: name}, says), make("div.options.row", labels)),
    make("button", {type: "submit"}, "Reveal"), output);
  return form;
}

// The questions of a run that can be asked by now; `again` forgets those of the run before.
function showQuestions(again) {
  if (again) [answers, cards] = [{}, {}];
  const place = (id, first, ...questions) => put(id, questions.map((question, i) => {
    const n = first + i, asked = cards[n] ? null : question(state.base);
    if (asked) cards[n] = card(n, asked);
    return cards[n];
  }));
  place("race-questions", 1, tokensQuestion, bestKQuestion);
  place("microscope-questions", 3, verdictQuestion, residualQuestion);
  place("rules-questions", 5, distributionQuestion);
}
