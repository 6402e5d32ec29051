//! From policy layers to what calls are held to, on this host.

use std::path::{Path, PathBuf};

use ollie_exec::Spawner;
use ollie_protocol::Octets;
use ollie_sandbox::{HostView, Identity, Policy};

use crate::Error;
use crate::collect::version_directory;
use crate::facts::Environment;
use crate::places::Places;
use crate::session::Confinement;

/// Where a policy comes to hold: this host, this user, this session.
pub(crate) struct Ground<'a> {
    /// Working directory of the session, absolute.
    pub(crate) cwd: &'a Path,
    /// The environment toolsrv was started with.
    pub(crate) environment: &'a Environment,
    pub(crate) places: &'a Places,
    /// Where scripts of tools are kept.
    pub(crate) scripts: Option<&'a Path>,
    /// Whether the person chose to run tools without enforcement.
    pub(crate) yolo: bool,
}

impl Ground<'_> {
    /// Calls `with` with what a policy needs to know of this host.
    pub(crate) fn viewed<T>(&self, with: impl FnOnce(&HostView<'_>) -> T) -> T {
        let environment = self.environment;
        let identity = Identity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: rustix::process::getgroups()
                .map(|groups| groups.iter().map(|group| group.as_raw()).collect())
                .unwrap_or_default(),
        };
        let roots = self.ollie_roots();
        let path = environment.var("PATH");
        let program = std::env::current_exe().ok();
        with(&HostView {
            cwd: self.cwd,
            home: Some(&environment.home),
            tmpdir: Some(&self.places.tmp),
            path: path.as_deref(),
            tools_path: self.scripts,
            program: program.as_deref(),
            ollie_roots: &roots,
            env: &|name| environment.var(name),
            identity: Some(&identity),
        })
    }

    /// Compiles a policy and hands it to the companion; or says why nothing
    /// may run. That this kernel cannot enforce it does not end the session:
    /// everything can be read.
    pub(crate) async fn confine(
        &self,
        policy: &Policy,
        spawner: &Spawner,
    ) -> Result<Result<Confinement, String>, Error> {
        let (enforcement, mut report) = match ollie_sandbox::compile(policy, self.yolo) {
            Ok(compiled) => compiled,
            Err(error) => return Ok(Err(Error::Policy(error).chain())),
        };
        let number = spawner
            .add_policy(&enforcement)
            .await
            .map_err(Error::Companion)?;
        let all = self.environment.variables.iter().cloned();
        let (variables, withheld) = policy.environment(all);
        let env = variables
            .into_iter()
            .map(|(name, value)| {
                let mut entry = name;
                entry.push("=");
                entry.push(value);
                Octets::from(entry)
            })
            .collect();
        report.env_withheld = withheld;
        Ok(Ok(Confinement {
            policy: number,
            report,
            env,
        }))
    }

    /// Where ollie keeps files of its own on this host. A tool that could
    /// write there would be started unconfined the next time.
    fn ollie_roots(&self) -> Vec<PathBuf> {
        let home = &self.environment.home;
        let directory = |variable: &str, default: &str| {
            self.environment
                .var(variable)
                .map_or_else(|| home.join(default), PathBuf::from)
                .join("ollie")
        };
        let mut roots = vec![
            directory("XDG_CACHE_HOME", ".cache"),
            directory("XDG_CONFIG_HOME", ".config"),
            directory("XDG_STATE_HOME", ".local/state"),
            self.places.run.clone(),
            self.places.tmp.clone(),
        ];
        roots.extend(self.scripts.map(Path::to_owned));
        if let Ok(program) = std::env::current_exe() {
            roots.extend(install_root(&program).map(Path::to_owned));
        }
        roots
    }
}

/// The root of `<root>/<os>-<arch>/<sha256>/toolsrv`, which stage 0 may have
/// put where no variable says it is; else the program's own directory.
fn install_root(program: &Path) -> Option<&Path> {
    match version_directory(program) {
        Some(version) => version.ancestors().nth(2),
        None => program.parent(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_an_installed_toolsrv_is_found() {
        let digest = "0a".repeat(32);
        let installed = format!("/var/tmp/ollie-7/linux-x86_64/{digest}/toolsrv");
        let root = install_root(Path::new(&installed));
        assert_eq!(root, Some(Path::new("/var/tmp/ollie-7")));
        let elsewhere = install_root(Path::new("/opt/toolsrv"));
        assert_eq!(elsewhere, Some(Path::new("/opt")));
    }
}
