"""Debian packages of suites that this machine does not run.

apt gets a configuration, lists and a cache of its own for each suite, so the
machine's own stay as they are and an ordinary user can do it. The mirror is
the one that the machine's packages come from; signatures are checked.
"""

import re
import subprocess
from pathlib import Path

from house import Gap

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_DEPENDENCY = re.compile(r"^\s*\|?Depends: (\S+)$", re.MULTILINE)


def _mirrors() -> tuple[str, str]:
    """The mirror of the installed release, and that of its security updates."""
    codename = ""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            codename = line.partition("=")[2].strip('"')
    try:
        listed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)",
             "Created-By: Packages", "Component: main"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        raise Gap(f"kernels come from Debian's mirror, and apt-get does not name it: {error}")
    found = {}
    for line in listed.splitlines():
        uri, _, release = line.partition(" ")
        found.setdefault(release.strip(), uri)
    if not codename or codename not in found:
        raise Gap("apt names no mirror of this machine's Debian release")
    main = found[codename]
    # Where the machine has no security updates, mirrors keep them beside it.
    beside = re.sub(r"debian/?$", "debian-security/", main)
    return main, found.get(f"{codename}-security", beside)


class Apt:
    """One suite."""

    def __init__(self, work: Path, suite: str, security: bool):
        self.suite = suite
        self._at = work
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (work / name).mkdir(parents=True, exist_ok=True)
        (work / "status").touch()
        mirror = _mirrors()[1 if security else 0]
        key = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
        (work / "sources.list").write_text(f"deb {key}{mirror} {suite} main\n")
        # As root apt would fetch as a user who cannot write into our directory.
        (work / "apt.conf").write_text(
            f'Dir::State "{work}";\n'
            f'Dir::State::lists "{work}/lists";\n'
            f'Dir::State::status "{work}/status";\n'
            f'Dir::Cache "{work}/cache";\n'
            f'Dir::Etc::sourcelist "{work}/sources.list";\n'
            f'Dir::Etc::sourceparts "{work}/parts";\n'
            f'Dir::Etc::preferencesparts "{work}/parts";\n'
            'APT::Sandbox::User "root";\n'
            'APT::Architecture "amd64";\n'
            'APT::Architectures { "amd64"; };\n'
            'Acquire::Languages "none";\n'
            'Acquire::Retries "3";\n'
            'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";\n'
            'Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";\n'
        )

    def _run(self, *command: str) -> str:
        environment = {
            "APT_CONFIG": str(self._at / "apt.conf"),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
        }
        try:
            return subprocess.run(
                command, check=True, capture_output=True, text=True,
                cwd=self._at, env=environment, timeout=600,
            ).stdout  # fmt: skip
        except subprocess.CalledProcessError as error:
            said = (error.stderr or error.stdout).strip().splitlines()
            raise Gap(f"Debian {self.suite}: {' '.join(command[:2])}: {said[-1] if said else error}")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Gap(f"Debian {self.suite}: {error}")

    def update(self) -> None:
        """Fetches the suite's list of packages."""
        # A list that could not be fetched is a warning to apt, not an error.
        self._run("apt-get", "update", "-o", "APT::Update::Error-Mode=any")

    def depends(self, package: str) -> list[str]:
        """What a package needs, by name; empty if there is no such package."""
        try:
            return _DEPENDENCY.findall(self._run("apt-cache", "depends", package))
        except Gap:
            return []

    def unpack(self, package: str, root: Path) -> None:
        """Downloads a package and lays its files below `root`."""
        self._run("apt-get", "download", "--quiet", package)
        files = sorted(self._at.glob(f"{package}_*.deb"))
        if not files:
            raise Gap(f"Debian {self.suite}: {package} was not downloaded")
        self._run("dpkg-deb", "--extract", str(files[-1]), str(root))
        for file in files:
            file.unlink()
