use std::ops::Range;

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

    /// Whether no match has a line end in it, and none depends on where the
    /// text begins and ends: many lines may be searched at once.
    pub(crate) fn is_within_lines(&self) -> bool {
        self.within_lines
    }

    /// The first match from `at` on.
    pub(crate) fn find(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        let input = Input::new(text).range(at..);
        self.regex.search(&input).map(|found| found.range())
    }

    /// Where a match from `at` on can end at the earliest.
    pub(crate) fn end(&self, text: &[u8], at: usize) -> Option<usize> {
        let input = Input::new(text).range(at..).earliest(true);
        self.regex.search_half(&input).map(|half| half.offset())
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
