use grep_matcher::{LineTerminator, Match, Matcher, NoCaptures, NoError};
use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange};
use regex_syntax::hir::{Hir, HirKind};

use crate::error::Error;

/// How large a compiled expression may become: a hundred times the default,
/// which long alternations reach.
const COMPILED: usize = 100 << 20;

/// The line ends: a line may end with CRLF, and `$` is before both.
const ENDS: [char; 2] = ['\r', '\n'];

/// How the expression is to be understood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Syntax {
    pub(crate) ignore_case: bool,
    pub(crate) fixed: bool,
    pub(crate) multiline: bool,
}

/// A regular expression that the searcher can work with.
///
/// `grep-regex` does the same and more; but it brings all of Unicode's tables,
/// 400 kB of them. Here there are those for `\w`, `\s`, `\d` and for letter
/// case.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: Regex,
    /// Whether no match has a line end in it, so that the searcher may look
    /// at many lines at once.
    within_lines: bool,
}

impl Pattern {
    pub(crate) fn new(pattern: &str, syntax: Syntax) -> Result<Self, Error> {
        let wrong = |why: String| Error::value("pattern", why);
        let text = if syntax.fixed {
            regex_syntax::escape(pattern)
        } else {
            pattern.to_owned()
        };
        let mut hir = ParserBuilder::new()
            .utf8(false)
            .multi_line(true)
            .crlf(true)
            .case_insensitive(syntax.ignore_case)
            .build()
            .parse(&text)
            .map_err(|error| wrong(format!("is no regular expression: {error}")))?;
        if !syntax.multiline {
            hir = without_line_ends(hir).ok_or_else(|| {
                wrong("asks for a line end inside of a line; `multiline` allows that".to_owned())
            })?;
        }
        // With \A or \z the end of a line and the end of the text differ.
        let about_text = hir.properties().look_set().contains_anchor_haystack();
        let regex = Regex::builder()
            .configure(
                Regex::config()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(COMPILED))
                    .hybrid_cache_capacity(COMPILED),
            )
            .build_from_hir(&hir)
            .map_err(|error| wrong(format!("cannot be compiled: {error}")))?;
        Ok(Self {
            regex,
            within_lines: !syntax.multiline && !about_text,
        })
    }
}

impl Matcher for Pattern {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        let input = Input::new(haystack).range(at..);
        Ok(self
            .regex
            .search(&input)
            .map(|found| Match::new(found.start(), found.end())))
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, haystack: &[u8], at: usize) -> Result<Option<usize>, NoError> {
        let input = Input::new(haystack).range(at..).earliest(true);
        Ok(self.regex.search_half(&input).map(|half| half.offset()))
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.within_lines.then(LineTerminator::crlf)
    }
}

/// The expression with the line ends taken out of its classes: `\s` means
/// white space within a line. `None` when a line end is all that it asks for.
fn without_line_ends(hir: Hir) -> Option<Hir> {
    let all = |parts: Vec<Hir>| -> Option<Vec<Hir>> {
        parts.into_iter().map(without_line_ends).collect()
    };
    Some(match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Literal(literal) => {
            if ENDS.iter().any(|end| literal.0.contains(&(*end as u8))) {
                return None;
            }
            Hir::literal(literal.0)
        }
        HirKind::Class(class) => Hir::class(class_without_line_ends(class)?),
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = without_line_ends(*repetition.sub)?;
            Hir::repetition(repetition)
        }
        HirKind::Capture(mut capture) => {
            *capture.sub = without_line_ends(*capture.sub)?;
            Hir::capture(capture)
        }
        HirKind::Concat(parts) => Hir::concat(all(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)?),
    })
}

fn class_without_line_ends(class: Class) -> Option<Class> {
    // A class that is empty from the start matches nothing, and may.
    let (was_empty, class) = match class {
        Class::Unicode(mut class) => {
            let was_empty = class.ranges().is_empty();
            let ends = ENDS.map(|end| ClassUnicodeRange::new(end, end));
            class.difference(&ClassUnicode::new(ends));
            (was_empty, Class::Unicode(class))
        }
        Class::Bytes(mut class) => {
            let was_empty = class.ranges().is_empty();
            let ends = ENDS.map(|end| ClassBytesRange::new(end as u8, end as u8));
            class.difference(&ClassBytes::new(ends));
            (was_empty, Class::Bytes(class))
        }
    };
    (was_empty || !class.is_empty()).then_some(class)
}
