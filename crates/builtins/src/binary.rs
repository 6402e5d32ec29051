use rustix::fs::SeekFrom;

use crate::encoding::Encoding;
use crate::error::Error;
use crate::read::Source;

/// How well-known formats begin, from the pages of magic(5).
const FORMATS: [(&[u8], &str); 18] = [
    (b"\x7fELF", "an ELF program or library"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (
        b"PK\x03\x04",
        "a ZIP archive (or a document or package made of one)",
    ),
    (b"\x1f\x8b", "data compressed by gzip"),
    (b"\xfd7zXZ\0", "data compressed by xz"),
    (b"\x28\xb5\x2f\xfd", "data compressed by zstd"),
    (b"BZh", "data compressed by bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0asm", "a WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"!<arch>\n", "a static library or a Debian package"),
    (
        b"\xff\xfe\0\0",
        "text in UTF-32, which this tool does not read",
    ),
    (
        b"\0\0\xfe\xff",
        "text in UTF-32, which this tool does not read",
    ),
];

/// Refuses what is no text by its beginning, and says what it is.
pub(crate) fn must_be_text(source: &Source<'_>) -> Result<(), Error> {
    let head = &source.head;
    if let Some((_, what)) = FORMATS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return refuse(source, what, "");
    }
    if head.get(257..262) == Some(b"ustar") {
        return refuse(source, "a tar archive", "");
    }
    if Encoding::of_bom(head).is_some_and(Encoding::is_wide) {
        return Ok(());
    }
    let Some(at) = memchr::memchr(0, head) else {
        return Ok(());
    };
    let zeros = |parity: usize| {
        let every_other = head.iter().skip(parity).step_by(2);
        every_other.filter(|byte| **byte == 0).count() * 5 > head.len() * 2
    };
    let hint = if zeros(0) != zeros(1) {
        "; perhaps it is UTF-16 without a byte order mark".to_owned()
    } else {
        data_after_hole(source)
    };
    refuse(
        source,
        &format!("a binary file (there is a NUL byte at offset {at})"),
        &hint,
    )
}

/// A log that was emptied while somebody kept writing begins with a hole.
fn data_after_hole(source: &Source<'_>) -> String {
    match rustix::fs::seek(&source.file, SeekFrom::Data(0)) {
        Ok(data @ 1..) => format!("; it begins with a hole, data follow at byte_offset={data}"),
        _ => String::new(),
    }
}

fn refuse(source: &Source<'_>, what: &str, hint: &str) -> Result<(), Error> {
    Err(Error::Kind {
        name: source.name.clone(),
        kind: what.to_owned(),
        hint: format!(", {} bytes{hint}", source.size()),
    })
}
