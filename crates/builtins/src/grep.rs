use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkState};
use serde::Deserialize;

use crate::error::Error;
use crate::grep_file::FileSearch;
use crate::grep_lines::Wanted;
use crate::grep_pattern::{Pattern, Syntax};
use crate::grep_results::Results;
use crate::kind::must_be_regular;
use crate::name::Name;
use crate::walk::{Unread, Wishes, must_exist, unread_remark, walk};

/// More context than this is a file to be read.
const CONTEXT: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    pattern: String,
    path: Option<Name>,
    #[serde(default)]
    mode: Mode,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    fixed: bool,
    #[serde(default)]
    multiline: bool,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    ignored: bool,
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Content,
    Files,
    Count,
}

/// What all threads of a search add to.
#[derive(Debug)]
struct State {
    results: Results,
    searched: usize,
    unread: Vec<Unread>,
}

/// Searches a file, or all files below a directory.
pub(crate) fn run(arguments: &Arguments) -> Result<String, Error> {
    let search = Search::new(arguments)?;
    let about = must_exist(&search.root)?;
    if about.is_dir() {
        search.tree()?;
    } else {
        must_be_regular(&search.root, about.file_type())?;
        search.file(&mut search.one(true), search.root.path());
    }
    Ok(search.show())
}

#[derive(Debug)]
struct Search<'a> {
    arguments: &'a Arguments,
    root: Name,
    pattern: Pattern,
    wanted: Wanted,
    state: Mutex<State>,
}

impl<'a> Search<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, Error> {
        let limit = arguments.limit.unwrap_or(250);
        if limit == 0 {
            return Err(Error::value("limit", "is 0: nothing would be shown"));
        }
        if arguments.context > CONTEXT {
            return Err(Error::value("context", format!("is above {CONTEXT}")));
        }
        let wanted = match arguments.mode {
            Mode::Content => Wanted::Lines {
                context: arguments.context,
                limit,
            },
            Mode::Files => Wanted::Any,
            Mode::Count => Wanted::Count,
        };
        let syntax = Syntax {
            ignore_case: arguments.ignore_case,
            fixed: arguments.fixed,
            multiline: arguments.multiline,
        };
        Ok(Self {
            arguments,
            root: match &arguments.path {
                Some(path) => path.clone(),
                None => Name::from(Path::new(".")),
            },
            pattern: Pattern::new(&arguments.pattern, syntax)?,
            wanted,
            state: Mutex::new(State {
                results: Results::new(limit),
                searched: 0,
                unread: Vec::new(),
            }),
        })
    }

    fn one(&self, named: bool) -> FileSearch {
        let multiline = self.arguments.multiline;
        FileSearch::new(self.pattern.clone(), self.wanted, named, multiline)
    }

    fn tree(&self) -> Result<(), Error> {
        let wishes = Wishes {
            hidden: self.arguments.hidden,
            ignored: self.arguments.ignored,
        };
        walk(&self.root, wishes, self.filter()?)
            .build_parallel()
            .run(|| {
                let mut searcher = self.one(false);
                Box::new(move |entry| match entry {
                    Ok(entry) => self.entry(&mut searcher, &entry),
                    Err(error) => {
                        self.state().unread.extend(Unread::of(&error));
                        WalkState::Continue
                    }
                })
            });
        Ok(())
    }

    fn filter(&self) -> Result<Option<Override>, Error> {
        let Some(glob) = &self.arguments.glob else {
            return Ok(None);
        };
        // Relative to the working directory, as ripgrep has it.
        let mut builder = OverrideBuilder::new("");
        builder
            .add(glob)
            .and_then(|builder| builder.build())
            .map(Some)
            .map_err(|error| Error::value("glob", format!("is no glob: {error}")))
    }

    fn entry(&self, searcher: &mut FileSearch, entry: &DirEntry) -> WalkState {
        let Some(kind) = entry.file_type() else {
            return WalkState::Continue;
        };
        let path = entry.path();
        if (kind.is_dir() || kind.is_file()) && self.state().results.are_full_before(path) {
            return WalkState::Skip;
        }
        if kind.is_file() {
            self.file(searcher, path);
        }
        WalkState::Continue
    }

    fn file(&self, searcher: &mut FileSearch, path: &Path) {
        let (found, failure) = searcher.search(path);
        let mut state = self.state();
        state.searched += 1;
        if let Some(error) = failure {
            state.unread.push(Unread {
                path: Some(path.to_owned()),
                problem: error.to_string(),
            });
        }
        if found.count > 0 {
            state.results.add(path.to_owned(), found);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(self) -> String {
        let mode = self.arguments.mode;
        let mut state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let shown = match mode {
            Mode::Content => state.results.lines(),
            Mode::Files => state.results.names(false),
            Mode::Count => state.results.names(true),
        };
        let (lines, files) = (
            number(shown.matches, "matching line"),
            number(shown.files, "file"),
        );
        let mut words = vec![match (shown.files, mode) {
            (0, _) => format!("no match in {}", number(state.searched, "file")),
            (_, Mode::Files) => format!("{files} with a match"),
            _ => format!("{lines} in {files}"),
        }];
        if shown.more {
            words.push("there are more; narrow the search or raise `limit`".to_owned());
        }
        words.extend(unread_remark(&mut state.unread));
        let gap = match mode {
            Mode::Content if shown.files > 0 => "\n",
            _ => "",
        };
        format!("{}{gap}[{}]\n", shown.text, words.join("; "))
    }
}

fn number(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
