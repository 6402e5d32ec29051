use std::collections::HashMap;
use std::fmt::Write as _;

/// How many candidates are shown.
const SHOWN: usize = 3;

/// Lines of one candidate that are shown, and characters of each.
const LINES: usize = 12;
const WIDTH: usize = 200;

/// How many lines of what is wanted are looked for.
const ANCHORS: usize = 3;

/// Lines of a file that are looked at: more would take too long for a hint.
const LOOKED_AT: usize = 100_000;

/// Below this nothing is alike.
const ALIKE: f64 = 0.5;

/// The places of `text` that are most like `old`, as lines to be appended to
/// a refusal, with a guess at what is wrong.
pub(crate) fn nearest(text: &[u8], old: &str) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().take(LOOKED_AT).collect();
    let wanted: Vec<&str> = old.lines().collect();
    let mut answer = String::new();
    if wanted.iter().all(|line| is_numbered(line)) {
        answer.push_str("; it seems to have the line numbers of file_read in it, leave them out");
    }
    let found = candidates(&lines, &wanted);
    if found.is_empty() {
        answer.push_str(", nor anything like it");
        return answer;
    }
    let blank_only = |start: usize| {
        let there = lines.iter().skip(start).take(wanted.len());
        there
            .zip(&wanted)
            .all(|(one, other)| squeezed(one) == squeezed(other))
    };
    if found.first().is_some_and(|(_, start)| blank_only(*start)) {
        answer.push_str("; the first place below differs in white space only");
    }
    answer.push_str(". Most like it:");
    for (_, start) in found {
        let _ = write!(answer, "\n  line {}:", start + 1);
        let shown = wanted.len().min(LINES);
        for (line, number) in lines.iter().skip(start).take(shown).zip(start + 1..) {
            let cut: String = line.chars().take(WIDTH).collect();
            let _ = write!(answer, "\n{number:>6}\t{cut}");
        }
        if wanted.len() > shown {
            let _ = write!(answer, "\n        ({} more lines)", wanted.len() - shown);
        }
    }
    answer
}

/// The best places, each with how much it is like what is wanted.
fn candidates(lines: &[&str], wanted: &[&str]) -> Vec<(f64, usize)> {
    // The lines that say most are where the search begins.
    let mut anchors: Vec<(usize, &str)> = wanted
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at, line.trim())).filter(|(_, line)| !line.is_empty()))
        .collect();
    anchors.sort_by_key(|(_, line)| std::cmp::Reverse(line.len()));
    anchors.truncate(ANCHORS);
    let mut near: Vec<(f64, usize)> = Vec::new();
    for (anchor, line) in anchors {
        let line = Bigrams::of(line);
        near.extend(
            lines
                .iter()
                .enumerate()
                .skip(anchor)
                .map(|(at, other)| (line.likeness(other), at - anchor))
                .filter(|(likeness, _)| *likeness >= ALIKE),
        );
    }
    near.sort_by_key(|(_, start)| *start);
    near.dedup_by(|later, earlier| {
        let same = later.1 == earlier.1;
        earlier.0 = earlier.0.max(if same { later.0 } else { 0.0 });
        same
    });
    near.sort_by(best_first);
    near.truncate(10 * SHOWN);
    let all: Vec<Bigrams> = wanted.iter().map(|line| Bigrams::of(line)).collect();
    for (likeness, start) in &mut near {
        let there = lines.iter().skip(*start);
        let sum: f64 = all
            .iter()
            .zip(there)
            .map(|(one, other)| one.likeness(other))
            .sum();
        *likeness = sum / all.len().max(1) as f64;
    }
    near.retain(|(likeness, _)| *likeness >= ALIKE);
    near.sort_by(best_first);
    near.truncate(SHOWN);
    near
}

fn best_first(one: &(f64, usize), other: &(f64, usize)) -> std::cmp::Ordering {
    other.0.total_cmp(&one.0).then(one.1.cmp(&other.1))
}

/// Pairs of neighbouring characters with their numbers; how many two lines
/// share tells how alike they are (Dice's coefficient).
#[derive(Debug)]
struct Bigrams {
    line: String,
    pairs: HashMap<(char, char), usize>,
    count: usize,
}

impl Bigrams {
    fn of(line: &str) -> Self {
        let mut pairs = HashMap::new();
        let mut count = 0;
        for pair in pairs_of(line) {
            *pairs.entry(pair).or_insert(0) += 1;
            count += 1;
        }
        Self {
            line: line.trim().to_owned(),
            pairs,
            count,
        }
    }

    fn likeness(&self, other: &str) -> f64 {
        let other = other.trim();
        if self.line == other {
            return 1.0;
        }
        // They cannot share half of their pairs.
        let (short, long) = (
            self.line.len().min(other.len()),
            self.line.len().max(other.len()),
        );
        if short < WIDTH && 4 * short < long {
            return 0.0;
        }
        let mut left: HashMap<(char, char), usize> = HashMap::new();
        let (mut shared, mut count) = (0, 0);
        for pair in pairs_of(other) {
            count += 1;
            let Some(number) = self.pairs.get(&pair) else {
                continue;
            };
            let left = left.entry(pair).or_insert(*number);
            if let Some(fewer) = left.checked_sub(1) {
                *left = fewer;
                shared += 1;
            }
        }
        if self.count + count == 0 {
            return 0.0;
        }
        2.0 * f64::from(shared) / (self.count + count) as f64
    }
}

fn pairs_of(line: &str) -> impl Iterator<Item = (char, char)> + '_ {
    let line = line.trim();
    line.chars()
        .take(WIDTH)
        .zip(line.chars().take(WIDTH).skip(1))
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect()
}

/// As file_read numbers lines.
fn is_numbered(line: &str) -> bool {
    let number = line.trim_start().split('\t').next().unwrap_or_default();
    line.contains('\t') && !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn main() {\n    let width = 80;\n    print(width);\n}\n";

    #[test]
    fn the_nearest_place_comes_with_its_line_numbers() {
        let answer = nearest(TEXT.as_bytes(), "    let widht = 80;\n    print(width);\n");
        assert!(
            answer.contains("\n  line 2:\n     2\t    let width = 80;\n     3\t    print(width);"),
            "{answer}"
        );
    }

    #[test]
    fn white_space_that_differs_is_named() {
        let answer = nearest(TEXT.as_bytes(), "\tlet width = 80;\n");
        assert!(answer.contains("white space only"), "{answer}");
    }

    #[test]
    fn line_numbers_that_were_copied_are_named() {
        let answer = nearest(TEXT.as_bytes(), "     2\t    let width = 80;\n");
        assert!(answer.contains("line numbers"), "{answer}");
    }

    #[test]
    fn where_nothing_is_alike_nothing_is_shown() {
        assert_eq!(nearest(TEXT.as_bytes(), "zzz"), ", nor anything like it");
        assert_eq!(nearest(b"", "zzz"), ", nor anything like it");
    }
}
