use std::path::Path;

/// What a host does at the end of a user's last session (logind.conf(5)),
/// read from files below `root`, which is `/` except in tests.
pub(crate) struct Logind<'a> {
    pub(crate) root: &'a Path,
    pub(crate) uid: u32,
    pub(crate) user: &'a str,
}

impl Logind<'_> {
    /// Why a session whose socket is in `run` could not outlive the login it
    /// was started from; `None` if it can.
    pub(crate) fn obstacle(&self, run: &Path) -> Option<String> {
        // Made by logind when it starts.
        if !self.at("run/systemd/users").is_dir() || self.lingers() {
            return None;
        }
        let user = self.user;
        if run.starts_with("/run/user") || run.starts_with("/dev/shm") {
            return Some(format!(
                "this session's socket is in {}, which this host removes at logout: start toolsrv \
                 with --lasting, or let {user} linger (loginctl enable-linger {user})",
                run.display()
            ));
        }
        (self.in_session() && self.kills()).then(|| {
            format!(
                "this host ends all processes of a user at logout (KillUserProcesses of \
                 logind.conf): let {user} linger (loginctl enable-linger {user})"
            )
        })
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.root.join(path)
    }

    fn lingers(&self) -> bool {
        self.at("var/lib/systemd/linger").join(self.user).exists()
    }

    /// Whether this process belongs to a login; what a service manager has
    /// started does not.
    fn in_session(&self) -> bool {
        let cgroup = std::fs::read_to_string(self.at("proc/self/cgroup"));
        cgroup.is_ok_and(|text| text.contains("/session-") && text.contains(".scope"))
    }

    /// `KillUserProcesses` as it is in force. Where no file sets it, the
    /// comment in the main one shows the default of this build of logind.
    fn kills(&self) -> bool {
        // The default of KillExcludeUsers.
        if self.uid == 0 {
            return false;
        }
        let mut said = None;
        let mut default = true;
        let main = ["etc", "run", "usr/lib"]
            .iter()
            .find_map(|at| std::fs::read_to_string(self.at(at).join("systemd/logind.conf")).ok());
        for line in main.iter().flat_map(|text| text.lines()) {
            let line = line.trim();
            if let Some(value) = setting(line) {
                said = Some(value);
            } else if let Some(value) = line.strip_prefix('#').and_then(setting) {
                default = value;
            }
        }
        for text in self.drop_ins() {
            said = text.lines().filter_map(setting).next_back().or(said);
        }
        said.unwrap_or(default)
    }

    /// Later ones win; of one name, that of the first directory counts.
    fn drop_ins(&self) -> Vec<String> {
        let mut found = std::collections::BTreeMap::new();
        for at in ["etc", "run", "usr/lib"] {
            let list = std::fs::read_dir(self.at(at).join("systemd/logind.conf.d"));
            for entry in list.into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|end| end == "conf") {
                    found
                        .entry(entry.file_name())
                        .or_insert_with(|| entry.path());
                }
            }
        }
        found
            .into_values()
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .collect()
    }
}

fn setting(line: &str) -> Option<bool> {
    let value = line.trim().strip_prefix("KillUserProcesses")?;
    let value = value.trim_start().strip_prefix('=')?.trim();
    Some(matches!(value, "yes" | "true" | "on" | "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN: &str = "0::/user.slice/user-1000.slice/session-3.scope\n";
    const TMP: &str = "/tmp/ollie-run-1";

    fn obstacle(files: &[(&str, &str)], run: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let logind = Logind {
            root: root.path(),
            uid: 1000,
            user: "ada",
        };
        logind.obstacle(Path::new(run))
    }

    #[test]
    fn where_there_is_no_logind_nothing_is_in_the_way() {
        assert_eq!(
            obstacle(&[("proc/self/cgroup", LOGIN)], "/run/user/1000/x"),
            None
        );
    }

    #[test]
    fn a_place_that_goes_at_logout_is_named_unless_the_user_lingers() {
        let users = ("run/systemd/users/1000", "");
        let reason = obstacle(&[users], "/run/user/1000/x").unwrap();
        assert!(reason.contains("enable-linger ada"), "{reason}");
        let linger = ("var/lib/systemd/linger/ada", "");
        assert_eq!(obstacle(&[users, linger], "/run/user/1000/x"), None);
        assert_eq!(obstacle(&[users], TMP), None);
    }

    #[test]
    fn the_last_word_on_killing_counts() {
        let base = [("run/systemd/users/1000", ""), ("proc/self/cgroup", LOGIN)];
        let kills = |files: &[(&str, &str)]| obstacle(&[&base[..], files].concat(), TMP).is_some();
        // systemd's own default is yes, distributions build it with no and
        // say so in a comment.
        assert!(kills(&[]));
        let comment = (
            "etc/systemd/logind.conf",
            "[Login]\n#KillUserProcesses=no\n",
        );
        assert!(!kills(&[comment]));
        let drop_in = (
            "etc/systemd/logind.conf.d/10.conf",
            "KillUserProcesses=yes\n",
        );
        assert!(kills(&[comment, drop_in]));
        let later = (
            "usr/lib/systemd/logind.conf.d/20.conf",
            "KillUserProcesses = no\n",
        );
        assert!(!kills(&[comment, drop_in, later]));
        let service = ("proc/self/cgroup", "0::/system.slice/ollie.service\n");
        assert!(!kills(&[drop_in, service]));
    }
}
