use super::nearest::nearest;
use super::yaml::{Source, parse};
use crate::{Document, Error, Layer};

/// The profiles that are part of this program; the files are the ones in
/// `sandbox-profiles/`.
const PROFILES: [(&str, &str); 3] = [
    (
        "default",
        include_str!("../../../../sandbox-profiles/default.yaml"),
    ),
    (
        "strict",
        include_str!("../../../../sandbox-profiles/strict.yaml"),
    ),
    (
        "nixos",
        include_str!("../../../../sandbox-profiles/nixos.yaml"),
    ),
];

/// The names of the embedded profiles.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// An embedded profile by its name; `default` is the one that is taken when
/// nobody names another.
///
/// # Errors
/// [`Error::NoProfile`] with the nearest name there is.
pub fn profile(name: &str) -> Result<Document, Error> {
    let Some((name, text)) = PROFILES.iter().find(|(n, _)| *n == name) else {
        return Err(Error::NoProfile {
            name: name.chars().take(64).collect(),
            nearest: nearest(name, profile_names()).map(str::to_owned),
            known: profile_names().collect::<Vec<_>>().join(", "),
        });
    };
    parse(text, &Source::new(Layer::Profile, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_parses_and_each_path_has_its_reason_beside_it() {
        for (name, text) in PROFILES {
            let document = profile(name).unwrap();
            assert!(!document.filesystem.is_empty(), "{name}");
            for (number, line) in text.lines().enumerate() {
                let item = line.trim_start().starts_with("- ");
                assert!(
                    !item || line.contains(" # "),
                    "{name}:{}: {line}",
                    number + 1
                );
            }
        }
    }

    /// What no profile may hold, whatever else it is for.
    #[test]
    fn no_profile_grants_keys_sockets_or_secrets() {
        for (name, _) in PROFILES {
            let document = profile(name).unwrap();
            assert!(document.unix_sockets.is_empty(), "{name}");
            for rule in &document.filesystem {
                let whole = [
                    "/",
                    "/etc",
                    "/dev",
                    "/run",
                    "/var",
                    "/tmp",
                    "/home",
                    "{HOME}",
                    "{XDG_CACHE_HOME}",
                    "{XDG_CONFIG_HOME}",
                    "{XDG_DATA_HOME}",
                    "{HOME}/.cargo",
                    "{HOME}/go",
                    "{HOME}/.ssh",
                    "/sys",
                ];
                assert!(
                    !whole.contains(&rule.path.as_str()),
                    "{name}: {}",
                    rule.path
                );
                let private = [
                    "netrc",
                    "npmrc",
                    "credentials",
                    "id_",
                    "gnupg",
                    ".aws",
                    ".kube",
                    ".docker",
                ];
                assert!(
                    !private.iter().any(|p| rule.path.contains(p)),
                    "{name}: {}",
                    rule.path
                );
                // A program on PATH that a tool can replace is one that the
                // person runs later, without a sandbox.
                assert!(
                    !rule.access.writes() || !rule.path.ends_with("/bin"),
                    "{name}: {}",
                    rule.path
                );
            }
            for name_of in &document.env {
                let secret = [
                    "TOKEN",
                    "KEY",
                    "SECRET",
                    "PASS",
                    "AUTH_SOCK",
                    "AWS",
                    "OLLIE",
                    "LD_P",
                ];
                assert!(
                    !secret.iter().any(|s| name_of.value.contains(s)),
                    "{name}: {}",
                    name_of.value
                );
            }
        }
    }

    #[test]
    fn a_wrong_name_is_told_with_the_right_one() {
        let error = profile("defualt").unwrap_err().to_string();
        assert!(error.contains("did you mean `default`?"), "{error}");
    }
}
