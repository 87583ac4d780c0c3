"""The files that a study writes when it has measured, for the studies of all examples."""
import importlib.util
import os
from pathlib import Path


def refuse_what_cannot_be_written(parser, *results, picture=None):
    """Ends by `parser.error` where a file of `results` (None: not asked for) or the picture could not be written at the end,
    so that nobody measures for an hour in vain.  Creates and changes nothing."""
    for name in filter(None, (*results, picture)):
        path = Path(name)
        place = path if path.exists() else path.parent
        if path.is_dir() or not os.access(place, os.W_OK):
            parser.error(f"{name}: it cannot be written; name a file in a folder of yours")
    if picture and importlib.util.find_spec("matplotlib") is None:
        parser.error("pictures need matplotlib: 'make venv' installs it beside the build")
