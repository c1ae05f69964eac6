// ---------------------------------------------------------------- predict, then reveal
// A question is {says, options, answer, because}; answer is the index of the right option, known
// from the run. Each is asked once its numbers are there.

const N_QUESTIONS = 5;
const answers = {}; // number of the question: whether the guess was right

function choose(list, seed) {
  return list.length ? list[seed % list.length] : null;
}

// The text before a position of a round, its last words.
function contextOf(run, r, i) {
  const text = run.prompt + run.rounds.slice(0, r).map(round => round.shown.join("")).join("")
    + run.rounds[r].shown.slice(0, i).join("");
  return "“…" + text.slice(-40).replace(/\n/g, " ") + "”";
}

function tokensQuestion(run) {
  const full = run.rounds.map((round, r) => r).filter(r => run.rounds[r].examined > 0 && run.rounds[r].draft.length > 1);
  const r = choose(full, run.settings.seed + 1);
  if (r === null) return null;
  const round = run.rounds[r], n = round.draft.length;
  return {
    says: "After " + contextOf(run, r, 0) + " the draft proposed " + round.draft.map(quoted).join(" ")
      + ". How many tokens did this one pass of the target add?",
    options: Array.from({length: n + 1}, (_, i) => String(i + 1)),
    answer: round.tokens.length - 1,
    because: round.accepted + " of " + plural(n, "draft") + " accepted, and one token of the target’s own"
      + (round.tokens.length > round.accepted ? ", " + quoted(round.tokens.at(-1)) : " if the text had not ended") + ". "
      + "A pass always adds at least one, so a bad draft costs time and never the text.",
  };
}

function bestKQuestion(run) {
  const costs = costsOf(run);
  if (!costs || !state.costs && live || run.figures.acceptance_rate === null) return null;
  const options = [1, 2, 4, 8], a = acceptance(run), h = draftingShare(run);
  const gains = options.map(K => speedupOf(a, K, costs.c, verifyCost(costs, K, K), h));
  return {
    says: "A draft is accepted with probability " + a.toFixed(2) + " here, drafting a token costs " + costs.c.toFixed(2)
      + " of a pass, and a pass over five rows costs " + verifyCost(costs, 4, 4).toFixed(2)
      + (h < 1 ? ". Look-up drafts in " + percent(h) + " of the rounds" : "") + ". Which K is best?",
    options: options.map(K => "K = " + K),
    answer: gains.indexOf(Math.max(...gains)),
    because: "Expected: " + options.map((K, i) => "K = " + K + " gives " + times(gains[i])).join(", ")
      + ". A longer draft is paid for in full, and its tail is seldom reached.",
  };
}

function verdictQuestion(run) {
  const open = itemsOf(run).filter(item => item.drafted && item.kind !== "unexamined"
    && run.rounds[item.r].coins[item.i] !== undefined && run.rounds[item.r].p[item.i] < run.rounds[item.r].q[item.i]);
  const item = choose(open, run.settings.seed);
  if (!item) return null;
  const round = run.rounds[item.r], p = round.p[item.i], q = round.q[item.i], u = round.coins[item.i];
  return {
    says: "After " + contextOf(run, item.r, item.i) + " the draft proposed " + quoted(item.id) + " with q = " + number(q)
      + "; the target gives it p = " + number(p) + ". The coin shows u = " + number(u) + ". Was it accepted?",
    options: ["accepted", "rejected"],
    answer: item.kind === "draft" ? 0 : 1,
    because: "p/q = " + number(p / q) + ", and u is " + (u < p / q ? "below it: accepted." : "not below it: rejected."),
  };
}

function residualQuestion(run) {
  // of the token rule: with the block rule a rejected draft may come back
  const rejected = run.rounds.filter(round => round.residual && round.residual.length > 2 && !round.support);
  const round = choose(rejected, run.settings.seed);
  if (!round) return null;
  const gone = round.draft[round.accepted];
  const others = round.residual.map(([id]) => id).filter(id => id !== gone).slice(0, 3);
  const options = [...others, gone].sort((a, b) => a - b);
  return {
    says: "The draft’s " + quoted(gone) + " was rejected, and a token from the residual norm(max(0, p − q)) takes its "
      + "place. Which of these can it not be?",
    options: options.map(quoted),
    answer: options.indexOf(gone),
    because: "A draft is rejected only where p < q, so max(0, p − q) is 0 for it: the residual holds what drafting left uncovered. "
      + "Here it was " + quoted(round.tokens.at(-1)) + ".",
  };
}

function lawQuestion(run) {
  const mistakes = state.rules.filter(row => row.kind === "mistake");
  const kept = mistakes.filter(isRight), lost = mistakes.filter(row => !isRight(row));
  const right = choose(kept, run.settings.seed);
  if (!right || lost.length < 3) return null;
  const wrong = [0, 1, 2].map(i => lost[(run.settings.seed + 5 * i) % lost.length]);
  const options = [...new Set([right, ...wrong])].sort((a, b) => a.name < b.name ? -1 : 1);
  return {
    says: "One of these mistakes leaves the law as it is and only costs time. Which?",
    options: options.map(row => title(row.name)),
    answer: options.indexOf(right),
    because: options.map(row => title(row.name) + ": " + distanceOf(row, 3)).join(", ")
      + ". " + right.cost[0].toUpperCase() + right.cost.slice(1) + ".",
    then: revealLaws,
  };
}

function card(n, question) {
  const name = "question-" + n, output = make("p.because", {role: "status"});
  const options = question.options.map((text, i) => make("label", null,
    make("input", {type: "radio", name, value: String(i), required: ""}), make("span", null, text)));
  const form = make("form.card.question", {"aria-labelledby": name}, make("p.eyebrow", null, "Predict, then reveal · " + n + " of " + N_QUESTIONS),
    make("fieldset", null, make("legend", {id: name}, question.says), make("div.options", null, ...options)),
    make("button", {type: "submit"}, "Reveal"), output);
  form.addEventListener("submit", event => {
    event.preventDefault();
    const guess = Number(new FormData(form).get(name)), right = guess === question.answer;
    if (!(n in answers)) answers[n] = right;
    options.forEach((option, i) => option.classList.toggle("answer", i === question.answer));
    const score = Object.values(answers);
    output.textContent = (right ? "Right. " : "Not quite: " + question.options[question.answer] + ". ") + question.because
      + " (" + score.filter(Boolean).length + " of " + score.length + " so far)";
    if (question.then) question.then();
  });
  return form;
}

const cards = {}; // number of the question: {says, form}, kept while it is the same question

function cardOf(n, question) {
  if (!question) return "";
  if (!cards[n] || cards[n].says !== question.says) {
    cards[n] = {says: question.says, form: card(n, question)};
    delete answers[n];
  }
  return cards[n].form;
}

function showQuestions() {
  const run = state.base, place = (id, ...asked) =>
    $(id).replaceChildren(...asked.map(([n, question]) => cardOf(n, question)));
  place("race-questions", [1, tokensQuestion(run)], [2, bestKQuestion(run)]);
  place("microscope-questions", [3, verdictQuestion(run)], [4, residualQuestion(run)]);
  place("rules-questions", [5, lawQuestion(run)]);
}
