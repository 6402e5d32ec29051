use crate::chars::{Piece, Pieces};
use crate::encoding::Encoding;

/// The text of a file, in UTF-8 except for bytes that are not.
///
/// For every file there is one text, and the text leads back to the same
/// bytes: what is not edited stays what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) encoding: Encoding,
    pub(crate) bytes: Vec<u8>,
}

impl Text {
    /// `None` for UTF-16 that has no text: half a pair or half a unit.
    pub(crate) fn decode(raw: &[u8]) -> Option<Self> {
        let encoding = Encoding::judge(&[raw]);
        let inside = raw.strip_prefix(encoding.bom()).unwrap_or(raw);
        let bytes = match encoding {
            Encoding::Utf8 | Encoding::Utf8Bom => inside.to_vec(),
            _ => {
                let mut text = String::with_capacity(inside.len());
                for (piece, _) in Pieces::new(encoding, inside) {
                    let Piece::Char(one) = piece else {
                        return None;
                    };
                    text.push(one);
                }
                text.into_bytes()
            }
        };
        Some(Self { encoding, bytes })
    }

    /// The file's bytes, or a character that its encoding has not.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, char> {
        let mut raw = self.encoding.bom().to_vec();
        if matches!(self.encoding, Encoding::Utf8 | Encoding::Utf8Bom) {
            raw.extend_from_slice(&self.bytes);
            return Ok(raw);
        }
        for one in String::from_utf8_lossy(&self.bytes).chars() {
            self.encoding.put(one, &mut raw).ok_or(one)?;
        }
        Ok(raw)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_leads_back_to_its_bytes(
            bom in prop::sample::select(vec![&b""[..], b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"]),
            rest: Vec<u8>,
        ) {
            let raw = [bom, &rest].concat();
            if let Some(text) = Text::decode(&raw) {
                prop_assert_eq!(text.encode(), Ok(raw));
            } else {
                prop_assert!(bom.len() == 2);
            }
        }
    }
}
