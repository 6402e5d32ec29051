"""Where things are, and what goes wrong in words."""

import os
from pathlib import Path


class Gap(Exception):
    """Something that cannot be had here, so a test that needs it cannot run."""


class Broken(Exception):
    """The machinery itself failed: neither a test's fault nor a gap."""


def directory(name: str) -> Path:
    """A directory below the one that `OLLIE_DEVBOX` names, made if need be."""
    path = root() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def root() -> Path:
    """Everything that the driver keeps: it can all be made again."""
    return Path(os.environ["OLLIE_DEVBOX"])


def dist() -> Path:
    """olliesrv and its bundle."""
    return Path(os.environ["OLLIE_DIST"])


def escape() -> Path:
    """The program with the attempts of the escape suite."""
    return Path(os.environ["OLLIE_ESCAPE"])


def scenarios() -> Path:
    """The directory of the scenario scripts: the driver's own parent."""
    return Path(__file__).resolve().parent.parent
