"""What generate prints for people: a block for each decoder, and what the two have in common."""

import json as json_format
from contextlib import nullcontext

from tqdm import tqdm

from experiments.data.lines import Lines
from experiments.decoding.gumbel import WHY_LOWER


def title(text):
    return f"{text}\n{'-' * len(text)}"


def show_run(result, begin):
    """A decoder's block below its title. begin is what stands before the text, "" where the text
    was streamed.
    """
    print(
        "Time = {seconds:.2f}s after {prefill_seconds:.2f}s of prefill,".format(**result), end=" "
    )
    print("{tokens_per_second:.1f} tokens/s".format(**result))
    print(f"{begin}{result['text']}\n" if begin else "")


def show_comparison(results):
    """What the two decoders have in common, below their blocks."""
    one, difference = results["speculative"], results.get("difference")
    if one and one["examined"]:
        print(
            f"Acceptance rate = {one['acceptance_rate']:.3f} ({one['accepted']} of {one['examined']} examined drafts)"
        )
        if "usual_acceptance_rate" in one:
            print(
                f"The usual rule would accept {one['usual_acceptance_rate']:.3f} of the same drafts, on average."
            )
            print(WHY_LOWER)
    if one:
        print(f"Tokens per target pass = {one['tokens_per_target_pass']:.2f}")
    if results["speedup"]:
        print(f"Speedup = {results['speedup']:.2f}")
    if results["identical"]:
        print("The two texts are identical.")
    elif difference:
        print(
            "The two texts differ from token {position} on: {verdict}.".format(**difference),
            end=" ",
        )
        print(
            "The two best logits there are {gap:.2g} apart, float error is {float_error:.2g}.".format(
                **difference
            )
        )
    elif results["identical"] is False:
        temperature = results["settings"]["temperature"]
        print(
            f"The two texts differ, as two draws from one distribution do at temperature {temperature}."
        )


def show_one_of_many(run, i, texts, results):
    """The blocks of text i, for people."""
    print(title(f"Prompt {i + 1} of {len(texts)}"))
    for decoder in run.decoders:
        print(title(f"{decoder.capitalize()} Decode"))
        show_run(results[decoder], f"Text = {run.encoder.decode(results['prompt_token_ids'])}")
    show_comparison(results)
    print()


def show_together(run, texts, batch_size, out, json):
    """Several prompts: a line of JSON each, on stdout or in a file, or blocks for people; and the
    speed of all together.
    """
    run.ids_of(texts)  # refused before anything is written
    settings = [run.settings_of(text, i) for i, text in enumerate(texts)]
    with Lines(out, expected=settings) if out else nullcontext() as lines:
        n_done = len(lines.done) if lines else 0
        bar = tqdm(
            total=len(texts),
            initial=n_done,
            unit=" prompts",
            leave=False,
            disable=None if out else True,
        )
        for i, results in enumerate(run.run_together(texts, batch_size, n_done), n_done):
            bar.update()
            if lines:
                lines.add(results)
            if json:
                print(json_format.dumps(results), flush=True)
            elif not out:
                show_one_of_many(run, i, texts, results)
        bar.close()
        if lines:
            lines.close()
    if not json:
        for decoder, (n_tokens, seconds) in run.totals.items() if n_done < len(texts) else ():
            how = f"{n_tokens} tokens in {seconds:.2f}s with prefill, {n_tokens / seconds:.1f} tokens/s"
            print(f"{decoder.capitalize()}, {batch_size} prompts at a time: {how}")
        print(f"Written: {out}\n" if out else "", end="")
