"""The command that writes a ready page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .page_ready import READY


def run(arguments: Sequence[str]) -> int:
    """Write a ready page; without a name, list them. A file that is there already stays unless --overwrite is said."""
    names = "\n".join(f"  {name:12} {what}" for name, (what, _) in READY.items())
    parser = argparse.ArgumentParser(
        prog="python -m tinygrad_seq explore",
        description="Write a page that computes: one file, to be opened in a browser.",
        epilog=f"the pages:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="which page; without it, they are listed")
    parser.add_argument("--into", metavar="FILE", help="where to write it (without: NAME.html)")
    parser.add_argument("--overwrite", action="store_true", help="write over a file that is there already")
    options = parser.parse_args(arguments)
    if options.name is None:
        print(f"The pages, for python -m tinygrad_seq explore NAME:\n\n{names}")
        return 0
    if options.name not in READY:
        return _refused(f"there is no page {options.name!r}; there are {', '.join(READY)}")
    path = Path(options.into or f"{options.name}.html")
    if path.exists() and not options.overwrite:
        return _refused(f"{path} is there already: name another file with --into, or say --overwrite")
    try:
        READY[options.name][1]().page().save(path)
    except (OSError, ValueError) as error:
        return _refused(f"{path} cannot be written: {error}")
    print(f"{path} is written: open it in a browser.")
    return 0


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    return 2
