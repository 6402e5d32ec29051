/// Makes text of bytes that arrive in pieces, which may be cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    rest: Vec<u8>,
}

impl Pieces {
    /// The text so far, without the bytes of a character that is not whole
    /// yet. What is no UTF-8 is replaced by U+FFFD.
    pub(crate) fn push(&mut self, piece: &[u8]) -> String {
        self.rest.extend_from_slice(piece);
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.rest.clear();
                    return text;
                }
                Err(error) => {
                    let valid = error.valid_up_to();
                    text.push_str(&String::from_utf8_lossy(&self.rest[..valid]));
                    let Some(bad) = error.error_len() else {
                        self.rest.drain(..valid);
                        return text;
                    };
                    text.push('\u{fffd}');
                    self.rest.drain(..valid + bad);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pieces;

    #[test]
    fn a_cut_anywhere_makes_the_same_text() {
        let bytes = "a\u{20ac}b\u{1f600}".as_bytes();
        for cut in 0..=bytes.len() {
            let mut pieces = Pieces::default();
            let (one, other) = bytes.split_at(cut);
            let text = pieces.push(one) + &pieces.push(other);
            assert_eq!(text, "a\u{20ac}b\u{1f600}", "{cut}");
        }
        let mut pieces = Pieces::default();
        assert_eq!(pieces.push(b"a\xffb"), "a\u{fffd}b");
    }
}
