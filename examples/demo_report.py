#!/usr/bin/env python3
"""Prints the demo's tables and its verdict from the JSON files of its runs.

demo_report.py calls STATS            MPI calls: offloaded, left to MPI and why; fails if none was offloaded
demo_report.py fft RESULT             times of the FFT's turns, as demo_fft.py has written them
demo_report.py verdict STATS RESULT...   what was gained and what was lost, in plain words
"""
import json
import statistics
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/cluster"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src/tools"))
import verdict as verdict_of  # noqa: E402
from overlap_figures import hidden_share, possible_share, table  # noqa: E402

NOISE = 0.1  # from here on a difference in what is the same for both is worth a warning
REMAINDER = 0.02  # of a transform: what is beyond the least possible time by no more than that needs no explanation
LINE_COLUMNS = 118


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def counted(stats):
    """(calls offloaded, calls) of a job."""
    rows = stats["collectives"].values()
    return sum(row["offloaded"] for row in rows), sum(row["calls"] for row in rows)


def calls(stats_file):
    stats = load(stats_file)
    print(f"{'MPI call':<18}{'calls':>9}{'offloaded':>11}{'to MPI':>9}{'MB by SPs':>12}{'MB by ranks':>13}  why to MPI")
    for name, row in sorted(stats["collectives"].items()):
        if row["calls"]:
            why = ", ".join(f"{reason} {count}" for reason, count in sorted(row.get("reasons", {}).items()))
            print(f"{name:<18}{row['calls']:>9}{row['offloaded']:>11}{row['host']:>9}"
                  f"{row.get('bytes_by_service', 0) / 1e6:>12.3f}{row.get('bytes_by_rank', 0) / 1e6:>13.3f}  {why}")
    offloaded, total = counted(stats)
    print(f"{offloaded} of {total} calls offloaded")
    return 0 if offloaded else 1


def medians(result):
    """{contender: {time: seconds}}, medians of the turns."""
    return {name: {key: statistics.median(turn[name]["seconds"][key] for turn in result["turns"])
                   for key in result["turns"][0][name]["seconds"]} for name in ("host", "longshore")}


def hidden(middle):
    """{contender: what share it hides of the shorter of computing and exchanges, as the MPI alone does each}"""
    computing, exchanging = (middle["host"][key] for key in ("compute_alone", "exchanges_alone"))
    return {name: hidden_share(computing, exchanging, times["transform"]) for name, times in middle.items()}


def possible(middle):
    """What share of the time that the MPI alone loses beside the longer of computing and exchanges Longshore saves; None: none."""
    host = middle["host"]
    return possible_share(host["transform"], middle["longshore"]["transform"], host["compute_alone"], host["exchanges_alone"])


def percent(share):
    return f"{100 * share:.0f} %".replace("-0 %", "0 %")


def fft_lines(result):
    middle = medians(result)
    rows = [[f"ms, median of {len(result['turns'])} turns", f"{result['mpi']} alone", "Longshore", "ratio"]]
    for key, name in (("transform", "transform, there and back"), ("compute_alone", "its computing alone"),
                      ("exchanges_alone", "its exchanges alone")):
        host, longshore = (1e3 * middle[each][key] for each in ("host", "longshore"))
        rows.append([name, f"{host:.0f}", f"{longshore:.0f}", f"{longshore / host:.2f}"])
    shares = hidden(middle)
    rows.append(["hidden, of the shorter of both", percent(shares["host"]), percent(shares["longshore"])])
    share = possible(middle)
    rows.append(["share of the possible gain", "", "none is possible" if share is None else percent(share)])
    return table(rows)


def unrest(middle):
    """By how much computing with nothing exchanged, which is the same for both, took longer in the launches with Longshore."""
    return middle["longshore"]["compute_alone"] / middle["host"]["compute_alone"] - 1


def change(result):
    """As verdict.judge: ("gain", "loss", "none" or "unsure", by how much the time of a transform grows, that of each turn)"""
    host, longshore = ([turn[name]["seconds"]["transform"] for turn in result["turns"]] for name in ("host", "longshore"))
    return verdict_of.judge(host, longshore, unrest(medians(result)))


def change_words(result):
    return verdict_of.words(change(result), "the transform")


def overlap_words(result):
    shares = hidden(medians(result))

    def words(name, share):
        if share < 0:
            return f"none by {name} (both together took longer than one after the other)"
        if share > 1:
            return f"all by {name} (both together took less than the longer of them)"
        return f"{percent(share)} by {name}"

    host, longshore = words(f"{result['mpi']} alone", shares["host"]), words("Longshore", shares["longshore"])
    return f"Overlap, how much of the shorter of computing and exchanges hid behind the other: {host}, {longshore}."


def possible_words(result):
    middle = medians(result)
    share = possible(middle)
    if share is None:
        return "Nothing could be gained: the MPI alone is as quick as the longer of computing and exchanges."
    times = {key: 1e3 * value for key, value in middle["host"].items()}
    longer = max(times["compute_alone"], times["exchanges_alone"])
    return (f"At best it could take as long as the longer of computing and exchanges, {longer:.0f} ms instead of {times['transform']:.0f}: "
            f"of that gain Longshore has {percent(share) if share > 0 else 'nothing'}.")


def remainder_parts(middle):
    """[(seconds, words)]: what the time with Longshore beyond the longer of the MPI's computing and exchanges is made of.
    The seconds add up to it; some may be below 0."""
    host, longshore = middle["host"], middle["longshore"]
    whole, exchanges, without = (longshore[key] for key in ("transform", "exchanges_alone", "without_exchange"))
    if host["exchanges_alone"] >= host["compute_alone"]:
        return [(without, "with no exchange open (before the first, between there and back, after the last)"),
                (exchanges - host["exchanges_alone"], "by exchanges that take longer than the MPI's with nothing computed, too"),
                (whole - without - exchanges, "by exchanges that take longer beside computing")]
    calls = [(longshore["wait"], "waiting for exchanges"), (longshore["test"], "asking whether one is complete"),
             (longshore["post"], "posting them")]
    computing = whole - sum(seconds for seconds, _ in calls) - host["compute_alone"]
    return [*calls, (computing, "by computing that takes longer beside exchanges")]


def remainder_words(result):
    """Where Longshore's time beyond the longer of both goes: its parts, the largest first, without those below a tenth of it."""
    middle = medians(result)
    host, longshore = middle["host"], middle["longshore"]
    beyond = longshore["transform"] - max(host["compute_alone"], host["exchanges_alone"])
    if "without_exchange" not in longshore or beyond < REMAINDER * longshore["transform"]:
        return ""
    parts = sorted((part for part in remainder_parts(middle) if abs(part[0]) >= beyond / 10), reverse=True)
    named = ", ".join(f"{1e3 * seconds:+.0f} {words if seconds > 0 else words.replace('longer', 'less time')}" for seconds, words in parts)
    return f"Longshore's {1e3 * longshore['transform']:.0f} ms are {1e3 * beyond:.0f} more than that: {named}."


def source_words(result):
    """What of the time gained or lost is overlap: all that is not exchanges which by themselves are faster or slower."""
    middle = medians(result)
    if change(result)[0] in ("none", "unsure"):
        return ""
    whole, exchanges = (1e3 * (middle["host"][key] - middle["longshore"][key])
                        for key in ("transform", "exchanges_alone"))

    def named(milliseconds):
        if round(milliseconds) == 0:
            return "took as long"
        return f"{'gained' if milliseconds >= 0 else 'lost'} {abs(milliseconds):.0f} ms"

    return (f"Where it comes from: exchanges, even with nothing computed, {named(exchanges)}; "
            f"overlap and all else {named(whole - exchanges)}.")


def noise_words(result):
    """A warning where the machine was not quiet enough for the figures of overlap: they rest on computing alone."""
    by = unrest(medians(result))
    if abs(by) <= NOISE:
        return ""
    return (f"BEWARE: computing with nothing exchanged took {abs(100 * by):.0f} % {'less' if by < 0 else 'more'} time in the "
            "launches with Longshore. This machine was not quiet: as much of the other figures may be chance.")


def cores_words(result):
    spare = result["cores"] - result["ranks"]
    if result["place"] == "here":
        return "" if spare > 0 else "Every core had a rank: Longshore's service process had none of its own."
    if result["place"] == "spare":
        return f"These were {result['placement']}; the MPI alone was bound alike."
    if not result["own_cores"]:
        return "Both machines shared all cores: there are no control groups of cores (cpuset) here, or no second core."
    each = result["cores"] // 2
    return "Each machine had one core, for its rank and its service process together." if each == 1 else \
        f"Each machine had {each} cores, so that its service process had one of its own."


def wire_words(result):
    drawn = result["turns"][result["drawn"]]
    use = [drawn[name].get("wire_percent") for name in ("host", "longshore")]
    if None in use:
        return ""
    return (f"The wire was in use {use[0]:.0f} % of the time with {result['mpi']} alone, {use[1]:.0f} % with Longshore "
            "(the pictured runs).")


def place_name(result):
    if result["place"] == "here":
        return f"FFT on one machine, {result['ranks']} ranks"
    spare = ", a core to spare each" if result["place"] == "spare" else ""
    return f"FFT on two machines{spare}, link of {result['link']}"


def fill(text, indent):
    """Lines that are no longer than LINE_COLUMNS; all but the first begin with two more blanks."""
    return textwrap.wrap(text, LINE_COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}  ",
                         break_on_hyphens=False)


def paragraph(title, first, *others):
    return fill(f"{title}: {first}", "") + [line for other in others if other for line in fill(other, "  ")]


def verdict_lines(stats, results):
    offloaded, total = counted(stats)
    lines = paragraph("hpcc, Debian's own binary",
                      "RIGHT, unchanged: it passed its own checks with Longshore as it did without.",
                      f"{offloaded} of its {total} collective calls were offloaded. It was not timed.")
    said = set()
    for result in results:
        if "skipped" in result:
            if result["skipped"] not in said:
                lines += paragraph("FFT on two machines", "NOT SHOWN.", f"{result['skipped']}.")
            said.add(result["skipped"])
        else:
            of_gain = (overlap_words,) if result["place"] == "here" else (possible_words, remainder_words)
            words = (change_words, *of_gain, source_words, wire_words, cores_words, noise_words)
            lines += paragraph(place_name(result), *(sentence(result) for sentence in words))
    return lines


def fft(result_file):
    print("\n".join(f"  {line}" for line in fft_lines(load(result_file))))
    return 0


def verdict(stats_file, *result_files):
    print("\n".join(verdict_lines(load(stats_file), [load(file) for file in result_files])))
    return 0


def main():
    commands = {"calls": (calls, 1), "fft": (fft, 1), "verdict": (verdict, 2)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    command, files = commands[sys.argv[1]]
    given = sys.argv[2:]
    if len(given) < files or (command is not verdict and len(given) > files):
        print(__doc__, file=sys.stderr)
        return 2
    return command(*given)


if __name__ == "__main__":
    sys.exit(main())
