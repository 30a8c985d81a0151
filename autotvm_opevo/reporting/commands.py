"""Commands that a report suggests: to go on, with more time for each trial, and to compare logs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from autotvm_opevo._utils.command_line import program
from autotvm_opevo._utils.durations import TIMEOUT, parse_duration
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.tuning.logs import best_of

# Options of the command `tune` that say what was tuned, with which TVM and where, which the command `compare` has, too.
WORKLOAD = (
    "--network",
    "--batch",
    "--operator",
    "--tensor",
    "--dtype",
    "--attribute",
    "--model",
    "--shape",
    "--target",
    "--tvm",
    "--rpc-tracker",
    "--rpc-key",
)


def continue_command(command: str, trials: int, log: Path) -> str:
    """The command that continues a run of this package's with so many trials in all; empty if the run was another program's.

    With a limit on time only, it is the same command, which then has as much time again.

    >>> log = Path("runs/alexnet.json")
    >>> continue_command("autotvm-opevo tune --network alexnet --trials 100 --log alexnet.json", 200, log)
    'autotvm-opevo tune --network alexnet --log runs/alexnet.json --trials 200'
    >>> continue_command("autotvm-opevo tune --network alexnet --time-limit 2m --log alexnet.json", 200_000, log)
    'autotvm-opevo tune --network alexnet --time-limit 2m --log runs/alexnet.json'
    >>> continue_command("python tune_my_network.py", 200, log)
    ''
    """
    words = _words(command)
    paths = [word for before, word in zip(["", *words], words) if before in ("--model", "--history")]
    if all(Path(path).is_absolute() for path in paths):  # others are relative to the folder that `--log` may be relative to
        words = [str(log) if before == "--log" else word for before, word in zip(["", *words], words)]
    only_time = (
        "--time-limit" in words and "--trials" not in words and _value("--task-scheduler", words, "gradient") == "gradient"
    )
    if not words or only_time:
        return shlex.join(words)
    return shlex.join([*_without("--trials", words), "--trials", str(trials)])


def longer_timeout(command: str, trials: int, log: Path) -> str:
    """`continue_command`, with twice the limit for a build and a run.

    >>> command = "autotvm-opevo tune --network alexnet --trials 50 --timeout 90s --log alexnet.json"
    >>> longer_timeout(command, 100, Path("alexnet.json"))
    'autotvm-opevo tune --network alexnet --log alexnet.json --trials 100 --timeout 180'
    """
    words = _words(continue_command(command, trials, log))
    if not words:
        return ""
    try:
        timeout = parse_duration(_value("--timeout", words, str(TIMEOUT)))
    except ValueError:  # of a damaged journal
        timeout = TIMEOUT
    return shlex.join([*_without("--timeout", words), "--timeout", f"{2 * timeout:g}"])


def compare_command(logs: Sequence[TuningLog]) -> str:
    """The command that decides which log's network is faster, as far as a journal knows what was tuned.

    It names the files of the best records where there are any, since those are confirmed. Empty if the logs have no task in
    common.
    """
    if not set.intersection(*(set(log.tasks) for log in logs)):
        return ""
    words = next(
        (words for log in logs if (words := _words(log.runs.command))), [*program().split(), "tune", "--network", "NAME"]
    )
    given = [[option, value] for option, value in zip(words, words[1:]) if option in WORKLOAD]
    best = [str(best_of(log.path)) for log in logs]
    return shlex.join([*words[: words.index("tune")], "compare", *best, *(word for pair in given for word in pair)])


def _words(command: str) -> list[str]:
    """The words of a command, with options and their values apart; none if it is not this package's ``tune``."""
    try:
        split = shlex.split(command)
    except ValueError:  # of a damaged journal
        return []
    words = [part for word in split for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return words if "tune" in words[:4] and "--log" in words else []


def _value(option: str, words: Sequence[str], default: str) -> str:
    return next((value for word, value in zip(words, words[1:]) if word == option), default)


def _without(option: str, words: Sequence[str]) -> list[str]:
    """The words without an option and its value."""
    return [word for before, word in zip(["", *words], words) if option not in (before, word)]
