#!/usr/bin/env python3
"""What 'longshore assess' does: runs a program without and with Longshore in turns, and says whether it paid."""

import argparse
import html
import os
import re
import shlex
import shutil
import statistics
import sys
import textwrap
from pathlib import Path

import assessed_runs
import ending
import expectation
import timeline_lanes
import timeline_svg
import verdict
from assessed_runs import KINDS, UNSHARED, say

PAGE_WIDTH = 1100  # pixels
CALLS_MAX, OTHERS_MAX = 6, 4  # rows of the table, so that all of it fits a screen
NAMED_MAX = 3  # calls that a sentence names
SHARE_SHOWN = 0.01  # of the time: what less another call took has no row
LATE_SHOWN = 0.1  # of the rows that nodes send to each other
CARRIED_SHOWN = 0.1  # of the time
UNITS = "MB: 10^6 bytes, to all ranks together. Seconds are of a rank on average, in the run of median time of each kind."
HEAD = ["call", "calls", "offloaded", "MB", "hidden", "s without", "s with"]


def arguments():
    parser = argparse.ArgumentParser(prog="longshore assess", description=__doc__)
    parser.add_argument("--longshore", required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--compare", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--setup")
    parser.add_argument("--folders", action="store_true")
    parser.add_argument("--scratch", default=".")
    parser.add_argument("--output")
    parser.add_argument("--machine")
    parser.add_argument("--machine-nodes", type=int, default=0)
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def median_run(runs):
    """The run whose time is the median (of an even number the quicker of the two): its figures add up."""
    return sorted(runs, key=lambda run: run.seconds)[(len(runs) - 1) // 2]


def call_figures(row):
    """What the table says of a call beside its times: calls, offloaded, MB, which share was hidden."""
    if "bytes" not in row:
        return [str(row.get("calls", "")), "", "", ""]
    moved = row["bytes_by_service"] + row["bytes_by_rank"]
    hidden = f"{100 * row['bytes_hidden'] / moved:.0f} %" if moved else "-"
    return [str(row["calls"]), str(row["offloaded"]), f"{(row['bytes'] + row['bytes_host']) / 1e6:.1f}", hidden]


def longest(times, most):
    """So many names, those with most time in one of the tables first."""
    return sorted({*times[0], *times[1]}, key=lambda name: (-max(one.get(name, 0) for one in times), name))[:most]


def table(runs):
    """The longest calls first; the rows of the times add up to the last one."""
    chosen = [median_run(runs[kind]) for kind in KINDS]
    calls, others = [run.calls for run in chosen], [run.other_calls for run in chosen]
    own = longest(calls, CALLS_MAX)
    named = [name for name in longest(others, OTHERS_MAX)
             if any(one.get(name, 0) > SHARE_SHOWN * run.seconds for one, run in zip(others, chosen))]

    def row(name, times):
        return [name, *call_figures(chosen[1].counts(name)), *times]

    def without(times, names, all_of_it):
        return [max(0.0, whole - sum(one.get(name, 0) for name in names)) for one, whole in zip(times, all_of_it)]

    rows = [row(name, [one.get(name, 0) for one in calls]) for name in own]
    more = len({*calls[0], *calls[1]}) - len(own)
    if more:
        rows.append(row(f"{more} more call{'s' if more > 1 else ''}", without(calls, own, [sum(one.values()) for one in calls])))
    rows.append(row("waits, tests in MPI", [run.waits for run in chosen]))
    rows += [row(name, [one.get(name, 0) for one in others]) for name in named]
    rows.append(row("other MPI calls", without(others, named, [run.others for run in chosen])))
    rows.append(row("outside of MPI", [max(0.0, run.seconds - run.in_collectives - run.others) for run in chosen]))
    rows.append(row("MPI_Init to Finalize", [run.seconds for run in chosen]))
    return [one[:5] + [f"{one[5]:.3f}", f"{one[6]:.3f}"] for one in rows]


def late_ranks(without, ours):
    """What is known of ranks that come last, beside the advice of the job with Longshore."""
    out = []
    if without.latest_rank >= 0:
        waited = [without.waits_of_ranks[without.latest_rank], max(without.waits_of_ranks)]
        same = without.latest_rank == ours.latest_rank
        out.append(f"Without Longshore rank {without.latest_rank} waited least{', too' if same else ''}, {waited[0]:.3f} s, another "
                   f"{waited[1]:.3f} s{'' if same else ': it seems to come last (estimated)'}.")
    elif ours.latest_rank >= 0:
        out.append("Without Longshore no rank waited so much less than another.")
    rows = assessed_runs.added(ours.stats.get("late", {}).values())
    if rows.get("late", 0) > LATE_SHOWN * rows.get("received", 0):
        out.append(f"With Longshore {rows['late']} of {rows['received']} announcements to other nodes came before any rank that they were for had "
                   "entered its call: such ranks are late.")
    return out


def named(run, calls):
    """The longest of them as part of a sentence: seconds by name."""
    order = sorted(calls, key=lambda name: (-calls[name], name))
    words = [f"{name} ({run.counts(name)['calls']} calls, {calls[name]:.3f} s of a rank)" for name in order[:NAMED_MAX]]
    if len(order) > NAMED_MAX:
        words.append(f"{len(order) - NAMED_MAX} more")
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def why_so_little(without, share):
    """Of a program in which collectives that Longshore carries, and waits, matter little: what decides instead. A sentence, or none."""
    if not any(without.counts(name)["calls"] for name in without.calls):
        are = "its collective is" if len(without.uncarried) == 1 else "its collectives are"
        made = f"{are} {named(without, without.uncarried)}, which the MPI serves" if without.uncarried else \
            "the program calls none of the collectives that Longshore carries"
        return [f"Nothing was offloaded, and nothing can be gained by offloading today: {made}."]
    if share >= 2 * verdict.CHANCE:
        return []
    long = {name: seconds for name, seconds in without.uncarried.items() if seconds > SHARE_SHOWN * without.seconds}
    others = f"{named(without, long)}, which Longshore does not carry, other calls" if long else "other calls than collectives"
    return [f"So little can hardly be improved: {others}, or computing, decide how long it takes."]


def is_set(options, names):
    """Whether the user has set one of the settings that the regular expression names, without LONGSHORE_."""
    settings = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("LONGSHORE_")] + options.set
    return any(re.fullmatch(rf"(LONGSHORE_)?({names})=.+", text, re.IGNORECASE) for text in settings)


def table_is_built_in(options):
    """Whether nothing that the user has set says which algorithm carries a call."""
    return not is_set(options, "ALGORITHMS_FILE|[A-Z]+_ALGORITHM")


def seconds(runs, kind):
    return [run.seconds for run in runs[kind]]


def outside_of_calls(run):
    return run.seconds - run.in_collectives


def memory_may_be_the_reason(options, runs):
    """Whether the program lost where it computes, and had large blocks of malloc that are shared memory with Longshore."""
    without, ours = (median_run(runs[kind]) for kind in KINDS)
    is_loss = options.turns > 1 and verdict.judge(seconds(runs, "without"), seconds(runs, "with"))[0] == "loss"
    return (is_loss and outside_of_calls(ours) > (1 + verdict.CHANCE) * outside_of_calls(without)
            and any(job.stats.get("memory", {}).get("shared_bytes_max", 0) for job in ours.jobs) and not is_set(options, "MEMORY_ALIAS"))


def why_memory(runs):
    """Whether it was, by the runs without shared blocks: a sentence, or none where there are no such runs."""
    if UNSHARED not in runs:
        return []
    judgement = verdict.judge(seconds(runs, "with"), seconds(runs, UNSHARED))
    took = f"with LONGSHORE_MEMORY_ALIAS=off, in {len(runs[UNSHARED])} more runs, it took {statistics.median(seconds(runs, UNSHARED)):.3f} s"
    if judgement[0] != "gain":
        return [f"That it shares the program's large blocks of malloc is not seen to be the reason: {took}."]
    return [f"The loss comes from large blocks of malloc, which are shared memory with Longshore: {took}. Pages that calloc gave and nobody "
            "has written, for one, are real memory when they are shared and read, and one page of zeros for all when they are not. Set "
            "LONGSHORE_MEMORY_ALIAS=off for this program, or have such arrays given by mmap."]


def conclusions(options, runs):
    """The verdict, where it comes from, what would change it, and what it cannot say; sentences."""
    times = {kind: seconds(runs, kind) for kind in KINDS}
    judgement = verdict.judge(times["without"], times["with"])
    turns = len(times["with"])
    out = [verdict.words(judgement, "the program")]
    if turns == 1 and judgement[0] != "none":
        judgement = ("unsure", *judgement[1:])
        out = [f"UNCERTAIN: one run of each kind, {verdict.signed(judgement[1])} of time with Longshore: it may be chance."]
    chosen = [median_run(runs[kind]) for kind in KINDS]
    in_calls = [run.in_collectives for run in chosen]
    rest = [outside_of_calls(run) for run in chosen]
    share = in_calls[0] / chosen[0].seconds if chosen[0].seconds else 0
    out.append(f"Without Longshore the collectives that it carries and waits took {100 * share:.1f} % of the time, {in_calls[0]:.3f} s of a rank; "
               f"with it {in_calls[1]:.3f} s. All else, computing above all, took {rest[0]:.3f} s and {rest[1]:.3f} s.")
    out += why_memory(runs)
    out += why_so_little(chosen[0], share)
    jobs = len(chosen[1].jobs)
    if jobs > 1:
        parts = [f"{run.longest.seconds:.3f} s of {run.seconds:.3f} s" for run in chosen]
        out.append(f"The command starts {jobs} MPI jobs, and their times are added up. The longest took {parts[0]} without and "
                   f"{parts[1]} with Longshore: what would change it, and a time line, are of that one.")
    out += [f"What would change it: {line}." for line in chosen[1].longest.advice]
    out += late_ranks(*(run.longest for run in chosen))
    if chosen[1].carried > CARRIED_SHOWN * chosen[1].seconds and table_is_built_in(options):
        out.append(f"Carried calls took {100 * chosen[1].carried / chosen[1].seconds:.0f} % of the time, by algorithms of the built-in table: "
                   "'longshore tune' measures which are quicker here.")
    spread = max((max(times[kind]) - min(times[kind])) / statistics.median(times[kind]) for kind in KINDS)
    if turns < 3:
        out.append(f"From {turns} turn{'s' if turns > 1 else ''} of each nothing is known of how much runs differ: take --turns 3 "
                   "or more.")
    else:
        out.append(f"Runs of the same kind differed by up to {100 * spread:.0f} %: a smaller difference cannot be told from so few "
                   "turns. The times include that of counting, the same in both.")
    return judgement[0], out


def print_table(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))


def print_sentences(sentences):
    """On a terminal in its columns, else a line each."""
    for sentence in sentences:
        print(textwrap.fill(sentence, max(40, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else sentence)


def print_text(runs, sentences, expected):
    print_table([HEAD] + table(runs))
    print_sentences([UNITS])
    print()
    print_sentences(sentences)
    if expected:
        print()
        if expected.rows:
            print_table([expected.head] + expected.table())
            print(f"{expectation.UNITS}\n")
        print_sentences(expected.sentences())


def time_line(runs):
    """An SVG of what each rank and service process did in the runs that were traced, on one scale; "" without a trace."""
    panels = []
    for kind in KINDS:
        trace = runs[kind][-1].longest.trace
        try:
            panels.append((f"{kind} Longshore", timeline_lanes.load(str(trace))))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            say(f"the trace of {runs[kind][-1].called} cannot be read: the page has no time line of it")
    end = max((lane.last for _, lanes in panels for lane in lanes), default=0.0)
    # Within a page of HTML the name of the format is not needed, and the page names no address.
    return timeline_svg.svg(panels, 0.0, end, PAGE_WIDTH).replace(' xmlns="http://www.w3.org/2000/svg"', "") if end > 0 else ""


# What is wider than the window, a table or the time line on a telephone, scrolls by itself.
STYLE = """body{font:16px/1.5 sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}p{overflow-wrap:anywhere}.wide{overflow-x:auto}
pre{overflow-x:auto;background:#f1f3f5;padding:.5rem 1rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.25rem .8rem;text-align:right;white-space:nowrap;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left;padding-left:0}.verdict{font-size:1.2rem;padding:.8rem 1rem;
border-left:.4rem solid #b8bfc6;background:#f6f7f8}.gain{border-color:#2f8f4e}.loss{border-color:#b3362b}
svg{display:block;width:100%;min-width:48rem}"""


def html_table(head, rows):
    def row(cells, mark):
        return "<tr>" + "".join(f"<{mark}>{html.escape(str(cell))}</{mark}>" for cell in cells) + "</tr>"

    return f'<div class="wide"><table>{row(head, "th")}{"".join(row(cells, "td") for cells in rows)}</table></div>'


def expected_part(expected):
    """The page's part on the machine that --machine names."""
    if expected is None:
        return ""
    rows = f"{html_table(expected.head, expected.table())}<p>{expectation.UNITS}</p>" if expected.rows else ""
    return (f"<h2>What to expect on {html.escape(expected.title)}</h2>{rows}"
            + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in expected.sentences()))


def page(options, runs, kind, sentences, expected):
    turns = [[str(i + 1)] + [f"{runs[one][i].seconds:.3f}" for one in KINDS] +
             [verdict.signed(runs["with"][i].seconds / runs["without"][i].seconds - 1)] for i in range(len(runs["with"]))]
    picture = time_line(runs)
    lines = f'<h2>The last run of each kind</h2><div class="wide">{picture}</div>' if picture else ""
    rest = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences[1:])
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>Does Longshore pay?</title><style>{STYLE}</style></head><body><h1>Does Longshore pay?</h1>"
            f"<pre>{html.escape(shlex.join(options.command))}</pre>"
            f'<p class="verdict {kind}">{html.escape(sentences[0])}</p>{rest}<h2>By call</h2>'
            f"{html_table(HEAD, table(runs))}<p>{UNITS}</p>{expected_part(expected)}<h2>By turn, seconds from MPI_Init to MPI_Finalize</h2>"
            f"{html_table(['turn', 'without', 'with', 'difference'], turns)}{lines}"
            "</body></html>\n")


def try_unshared(options, folder, runs):
    """The comparison is true without these runs, too."""
    try:
        assessed_runs.run_unshared(options, folder, runs)
    except assessed_runs.Failure as failure:
        say(f"whether shared memory is the reason is not known: {failure}")
        del runs[UNSHARED]


def expect(options, machine, runs):
    """None where nothing can be said, which does not make the comparison less true."""
    try:
        return expectation.Expectation(options, machine, runs, say)
    except expectation.Refused as refused:
        say(f"nothing can be said about {machine['name']}: {refused}")
        return None


def queues_each_run(command):
    """Whether Slurm gives each run an allocation of its own, in whose queue it waits and whose nodes may be others."""
    in_allocation = os.environ.get("SLURM_JOB_ID") or any(word.startswith("--jobid") for word in command)
    return not in_allocation and any(Path(word).name in ("srun", "salloc") for word in command)


def comes_back_early(command):
    """Whether it submits a job and does not wait for it."""
    return Path(command[0]).name in ("sbatch", "qsub", "bsub") and not {"--wait", "-W", "-K", "-sync"}.intersection(command)


def main():
    options = arguments()
    if comes_back_early(options.command):
        say(f"{options.command[0]} comes back before its job has run: let the batch script itself call 'longshore assess srun ./program'")
        return ending.NOT_READY
    if queues_each_run(options.command):
        say(f"each of the {2 * options.turns} runs waits for an allocation of its own, perhaps of other nodes: have all in one by "
            "'salloc -N NODES longshore assess srun ./program'")
    machine = expected = None
    try:
        if options.machine:
            machine = expectation.read_machine(options.longshore, options.machine)
    except expectation.Refused as refused:
        say(f"--machine: {refused}")
        return ending.NOT_READY
    try:
        with assessed_runs.scratch_folder(options.scratch) as folder:
            runs = assessed_runs.run_all(options, folder)
            if memory_may_be_the_reason(options, runs):
                try_unshared(options, folder, runs)
            if machine:
                expected = expect(options, machine, runs)
            kind, sentences = conclusions(options, runs)
            text = page(options, runs, kind, sentences, expected) if options.output else ""
    except assessed_runs.Failure as failure:
        say(f"{failure}; stopped")
        return 1
    print_text(runs, sentences, expected)
    if options.output:
        with ending.whole_file(options.output) as part:
            Path(part).write_text(text, encoding="utf-8")
        say(f"{options.output} has it for a browser")
    return 0


if __name__ == "__main__":
    sys.exit(ending.run("assess", main))
