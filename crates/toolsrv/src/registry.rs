use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ninep_rs::Refusal;
use ollie_protocol::{Defined, Definition, Octets, ToolOrigin, auth, is_tool_name, limits};
use sha2::{Digest as _, Sha256};

use crate::store::Store;
use crate::tool::Tool;
use crate::variants::Probes;

/// The tools that toolsrv brings along, made of `tools/` when it was built.
const STANDARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tools.json"));

/// How many qid paths a tool's directory has.
const PATHS: u64 = 8;
/// Where qid paths of tools begin: far from those of calls.
const FIRST_PATH: u64 = 1 << 48;
/// Agents that may have a choice of tools of their own.
const AGENTS_MAX: usize = 1024;

/// The tools of a session.
///
/// A tool that the client defines goes before a standard one of its name.
/// Each agent sees all of them, less what it has unloaded.
pub(crate) struct Registry {
    shelf: Mutex<Shelf>,
    paths: AtomicU64,
    /// Where scripts are kept; none where no place could be made.
    pub(crate) store: Option<Store>,
    /// What programs of this host have said of themselves.
    pub(crate) probes: Probes,
}

#[derive(Default)]
struct Shelf {
    standard: BTreeMap<String, Arc<Tool>>,
    defined: BTreeMap<String, Arc<Tool>>,
    unloaded: HashMap<String, BTreeSet<String>>,
}

/// Which variant of a tool runs on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its number; none where no variant can run.
    pub(crate) variant: Option<usize>,
    /// Why that one, or why none.
    pub(crate) reason: String,
}

impl Registry {
    pub(crate) fn new(store: Option<Store>) -> Self {
        let registry = Self {
            shelf: Mutex::default(),
            paths: AtomicU64::new(FIRST_PATH),
            store,
            probes: Probes::default(),
        };
        // Checked by a test, as it is the same in every start.
        let standard: Vec<Definition> = serde_json::from_slice(STANDARD).unwrap_or_default();
        for definition in standard {
            if let Definition::Tool { spec, scripts } = definition {
                let name = spec.name.clone();
                let tool = Tool::new(*spec, scripts, None, registry.fresh_paths());
                registry.shelf().standard.insert(name, Arc::new(tool));
            }
        }
        registry
    }

    /// Takes a definition in. What is refused leaves everything as it was.
    pub(crate) fn define(&self, definition: Definition) -> Result<Defined, Refusal> {
        match definition {
            Definition::Tool { spec, scripts } => {
                spec.validate()
                    .map_err(|error| Refusal::new(error.to_string()))?;
                if spec.origin == ToolOrigin::Standard {
                    return Err(Refusal::new(
                        "standard tools come with toolsrv: say user or project",
                    ));
                }
                let missing = self.take_scripts(spec.scripts(), &scripts)?;
                if !missing.is_empty() {
                    return Ok(Defined::Missing { scripts: missing });
                }
                let path = self.fresh_paths();
                let mut shelf = self.shelf();
                if let Some(known) = shelf.defined.get(&spec.name)
                    && known.spec == *spec
                    && known.problem.is_none()
                {
                    return Ok(Defined::Done { changed: false });
                }
                if shelf.defined.len() >= limits::TOOLS_MAX
                    && !shelf.defined.contains_key(&spec.name)
                {
                    return Err(Refusal::new(format!(
                        "{} tools are defined: remove some first",
                        limits::TOOLS_MAX
                    )));
                }
                let tool = Tool::new(*spec, BTreeMap::new(), None, path);
                shelf.defined.insert(tool.spec.name.clone(), Arc::new(tool));
                Ok(Defined::Done { changed: true })
            }
            Definition::Broken { name, problem } => {
                let mut shelf = self.shelf();
                let Some(known) = shelf.defined.get(&name) else {
                    return Err(unknown(&name, &shelf));
                };
                let problem: String = problem.chars().take(1024).collect();
                if known.problem.as_ref() == Some(&problem) {
                    return Ok(Defined::Done { changed: false });
                }
                let mut tool = known.afresh();
                tool.problem = Some(problem);
                shelf.defined.insert(name, Arc::new(tool));
                Ok(Defined::Done { changed: true })
            }
            Definition::Remove { name } => {
                let changed = self.shelf().defined.remove(&name).is_some();
                Ok(Defined::Done { changed })
            }
        }
    }

    /// Puts the scripts that were sent where they are kept; those that were
    /// not, and are not there.
    fn take_scripts<'a>(
        &self,
        needed: impl Iterator<Item = &'a str>,
        sent: &BTreeMap<String, Octets>,
    ) -> Result<Vec<String>, Refusal> {
        for (sha256, bytes) in sent {
            let bytes = bytes.as_bytes();
            if bytes.len() > limits::SCRIPT_MAX {
                return Err(Refusal::new(format!(
                    "the script {sha256} has {} bytes, at most {} are taken",
                    bytes.len(),
                    limits::SCRIPT_MAX
                )));
            }
            if auth::to_hex(&Sha256::digest(bytes)) != *sha256 {
                return Err(Refusal::new(format!(
                    "the script {sha256} is another one than its SHA-256 says"
                )));
            }
        }
        let mut missing = Vec::new();
        for sha256 in needed {
            let store = self.store()?;
            match sent.get(sha256) {
                Some(bytes) => {
                    store.put(sha256, bytes.as_bytes()).map_err(|error| {
                        let place = store.directory().display();
                        Refusal::new(format!("cannot keep a script in {place}: {error}"))
                    })?;
                }
                None if store.find(sha256).is_none() => missing.push(sha256.to_owned()),
                None => {}
            }
        }
        Ok(missing)
    }

    /// Where scripts are kept.
    pub(crate) fn store(&self) -> Result<&Store, Refusal> {
        self.store.as_ref().ok_or(Refusal::new(
            "no tool with a script can be run: no directory for scripts could be made on this host",
        ))
    }

    /// The tool of this name, for a call of this agent.
    pub(crate) fn find(&self, agent: &str, name: &str) -> Result<Arc<Tool>, Refusal> {
        let shelf = self.shelf();
        let tool = shelf.get(name).ok_or_else(|| unknown(name, &shelf))?;
        if !shelf.is_loaded(agent, name) {
            return Err(Refusal::new(format!(
                "the tool {name} was unloaded for {agent}: write \"load {name}\" to tools/ctl"
            )));
        }
        Ok(tool)
    }

    /// The tool of this name, loaded or not.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Tool>> {
        self.shelf().get(name)
    }

    /// Every tool by name, and whether this agent has it.
    pub(crate) fn all(&self, agent: &str) -> Vec<(Arc<Tool>, bool)> {
        let shelf = self.shelf();
        let names: BTreeSet<&String> = shelf.standard.keys().chain(shelf.defined.keys()).collect();
        names
            .into_iter()
            .filter_map(|name| Some((shelf.get(name)?, shelf.is_loaded(agent, name))))
            .collect()
    }

    /// Gives a tool to this agent, or takes it away.
    pub(crate) fn set_loaded(&self, agent: &str, name: &str, loaded: bool) -> Result<(), Refusal> {
        if !is_tool_name(name) {
            return Err(Refusal::new("load and unload take the name of a tool"));
        }
        let mut shelf = self.shelf();
        if loaded {
            if shelf.get(name).is_none() {
                return Err(unknown(name, &shelf));
            }
            if let Some(unloaded) = shelf.unloaded.get_mut(agent) {
                unloaded.remove(name);
            }
            return Ok(());
        }
        if shelf.get(name).is_none() {
            return Err(unknown(name, &shelf));
        }
        if shelf.unloaded.len() >= AGENTS_MAX && !shelf.unloaded.contains_key(agent) {
            return Err(Refusal::new("too many agents have unloaded tools"));
        }
        let unloaded = shelf.unloaded.entry(agent.to_owned()).or_default();
        unloaded.insert(name.to_owned());
        Ok(())
    }

    /// Forgets what was found out about this host.
    pub(crate) async fn reload(&self) {
        self.probes.forget().await;
        let mut shelf = self.shelf();
        let Shelf {
            standard, defined, ..
        } = &mut *shelf;
        for tool in standard.values_mut().chain(defined.values_mut()) {
            *tool = Arc::new(tool.afresh());
        }
    }

    fn fresh_paths(&self) -> u64 {
        self.paths.fetch_add(PATHS, Ordering::Relaxed)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn get(&self, name: &str) -> Option<Arc<Tool>> {
        let tool = self.defined.get(name).or_else(|| self.standard.get(name));
        tool.cloned()
    }

    fn is_loaded(&self, agent: &str, name: &str) -> bool {
        !self
            .unloaded
            .get(agent)
            .is_some_and(|unloaded| unloaded.contains(name))
    }
}

fn unknown(name: &str, shelf: &Shelf) -> Refusal {
    let shown: String = name.chars().take(limits::NAME_MAX).collect();
    let names: BTreeSet<&str> = (shelf.standard.keys().chain(shelf.defined.keys()))
        .map(String::as_str)
        .collect();
    let names: Vec<_> = names.into_iter().take(32).collect();
    Refusal::new(format!(
        "no tool named {shown:?} here: there are {}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use ollie_protocol::ToolSpec;

    use super::*;

    fn registry() -> (Registry, tempfile::TempDir) {
        let top = tempfile::tempdir().unwrap();
        let store = Store::in_one_of([top.path().join("scripts")]);
        (Registry::new(store), top)
    }

    fn spec(json: &str) -> Box<ToolSpec> {
        serde_json::from_str(json).unwrap()
    }

    fn simple(description: &str) -> Definition {
        Definition::Tool {
            spec: spec(&format!(
                r#"{{"name":"shell","description":"{description}","variants":[{{"run":{{"command":["x"]}}}}]}}"#
            )),
            scripts: BTreeMap::new(),
        }
    }

    #[test]
    fn the_tools_that_are_brought_along_are_in_order() {
        let (registry, _top) = registry();
        let all = registry.all("a");
        let names: Vec<_> = all
            .iter()
            .map(|(tool, _)| tool.spec.name.as_str())
            .collect();
        for needed in ["shell", "host_info", "proc_start", "proc_output"] {
            assert!(names.contains(&needed), "{names:?}");
        }
        for (tool, _) in &all {
            tool.spec.validate().unwrap();
            assert_eq!(tool.spec.origin, ToolOrigin::Standard);
        }
    }

    #[test]
    fn a_tool_of_the_users_goes_before_and_a_broken_one_keeps_it() {
        let (registry, _top) = registry();
        let description = || registry.get("shell").unwrap().spec.description.clone();
        let standard = description();
        let changed = |definition| registry.define(definition).unwrap();
        assert_eq!(changed(simple("mine")), Defined::Done { changed: true });
        assert_eq!(changed(simple("mine")), Defined::Done { changed: false });
        assert_eq!(description(), "mine");
        let broken = Definition::Broken {
            name: "shell".into(),
            problem: "line 3".into(),
        };
        changed(broken);
        assert_eq!(description(), "mine");
        assert_eq!(
            registry.get("shell").unwrap().problem.as_deref(),
            Some("line 3")
        );
        changed(simple("mine"));
        assert_eq!(registry.get("shell").unwrap().problem, None);
        changed(Definition::Remove {
            name: "shell".into(),
        });
        assert_eq!(description(), standard);
    }

    #[test]
    fn a_script_is_asked_for_until_it_is_there_and_must_be_the_one() {
        // printf 'echo\n' | sha256sum
        let sha256 = "86b0c5a1e2b73b08fd54c727f4458649ed9fe3ad1b6e8ac9460c070113509a1e";
        let (registry, _top) = registry();
        let define = |scripts| {
            registry.define(Definition::Tool {
                spec: spec(&format!(
                    r#"{{"name":"s","description":"d","variants":[{{"run":{{"script":{{"sha256":"{sha256}"}}}}}}]}}"#
                )),
                scripts,
            })
        };
        let missing = define(BTreeMap::new()).unwrap();
        assert_eq!(
            missing,
            Defined::Missing {
                scripts: vec![sha256.to_owned()]
            }
        );
        assert!(registry.get("s").is_none());
        let other = BTreeMap::from([(sha256.to_owned(), Octets::from("echo 2\n"))]);
        assert!(define(other).is_err());
        let right = BTreeMap::from([(sha256.to_owned(), Octets::from("echo\n"))]);
        assert_eq!(define(right).unwrap(), Defined::Done { changed: true });
        registry
            .define(Definition::Remove { name: "s".into() })
            .unwrap();
        assert_eq!(
            define(BTreeMap::new()).unwrap(),
            Defined::Done { changed: true }
        );
    }

    #[test]
    fn what_one_agent_unloads_the_other_keeps() {
        let (registry, _top) = registry();
        registry.set_loaded("a", "shell", false).unwrap();
        assert!(registry.find("a", "shell").is_err());
        assert!(registry.find("b", "shell").is_ok());
        registry.set_loaded("a", "shell", true).unwrap();
        assert!(registry.find("a", "shell").is_ok());
        assert!(registry.set_loaded("a", "nosuch", false).is_err());
    }
}
