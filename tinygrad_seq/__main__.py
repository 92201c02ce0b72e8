"""What can be run: python -m tinygrad_seq COMMAND."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from .see import page_command

# The name of a command: what it does, and what runs it with the arguments that follow.
COMMANDS: dict[str, tuple[str, Callable[[Sequence[str]], int]]] = {
    "explore": ("write a page that computes, to be opened in a browser", page_command.run),
}


def main(arguments: Sequence[str]) -> int:
    """Run a command; without one, say which there are. Answers 0, or 2 where something was wrong."""
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]][1](arguments[1:])
    lines = "\n".join(f"  {name:12} {what}" for name, (what, _) in COMMANDS.items())
    wrong = bool(arguments) and arguments[0] not in ("-h", "--help")
    if wrong:
        print(f"there is no command {arguments[0]!r}", file=sys.stderr)
    print(f"usage: python -m tinygrad_seq COMMAND\n\n{lines}", file=sys.stderr if wrong else sys.stdout)
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
