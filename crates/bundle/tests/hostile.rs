//! What an attacker, a broken download or another packer may hand us: each
//! archive here is made by hand and must end in the error that names it.

use std::io::Write as _;

use liblzma::{
    stream::{Check, Filters, LzmaOptions, Stream},
    write::XzEncoder,
};
use ollie_bundle::{Bundle, Digest, Error, Manifest};
use tar::{EntryType, Header};

/// An archive under construction, correct until a test breaks it.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn entry(mut self, header: &Header, contents: &[u8]) -> Self {
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(contents);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str, contents: &[u8]) -> Self {
        self.entry(&header(path, contents.len() as u64), contents)
    }

    fn link(self, kind: EntryType, path: &str, target: &str) -> Self {
        let mut header = header(path, 0);
        header.set_entry_type(kind);
        header.set_link_name(target).expect("short");
        header.set_cksum();
        self.entry(&header, b"")
    }

    fn kind(self, kind: EntryType, path: &str) -> Self {
        let mut header = header(path, 0);
        header.set_entry_type(kind);
        header.set_cksum();
        self.entry(&header, b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

/// `Header::set_path` refuses most of what is needed here, so the name is
/// written into its field.
fn header(path: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().expect("gnu").name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_mtime(1);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    header
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let stream = Stream::new_easy_encoder(6, Check::Crc64).expect("preset 6");
    let mut encoder = XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn line(path: &str, contents: &[u8]) -> String {
    format!(
        r#"{{"path":"{path}","mode":"0644","size":{},"sha256":"{}"}}"#,
        contents.len(),
        Digest::of(contents)
    )
}

fn manifest(lines: &[String]) -> String {
    format!(
        r#"{{"format":1,"ollie":"0","files":[{}]}}"#,
        lines.join(",")
    )
}

/// A manifest naming `tools/a` and `tools/b`, and what follows it.
fn named(rest: impl FnOnce(Tar) -> Tar) -> Vec<u8> {
    let json = manifest(&[line("tools/a", b"one"), line("tools/b", b"two")]);
    xz(&rest(Tar::default().file("manifest.json", json.as_bytes())).end())
}

fn open(bytes: &[u8]) -> Error {
    Bundle::read_from(bytes).expect_err("a hostile bundle was accepted")
}

#[test]
fn the_unbroken_archive_of_these_tests_is_accepted() {
    let good = named(|tar| tar.file("tools/a", b"one").file("tools/b", b"two"));
    let bundle = Bundle::read_from(&good[..]).expect("well formed");
    assert_eq!(bundle.files().len(), 2);
    assert_eq!(bundle.file("tools/b").expect("named").contents(), b"two");
    assert_eq!(bundle.sha256(), Digest::of(&good));
}

#[test]
fn links_devices_pipes_and_directories_are_refused_in_place_of_a_file() {
    for (kind, word) in [
        (EntryType::Symlink, "a symbolic link"),
        (EntryType::Link, "a hard link"),
        (EntryType::Char, "a character device"),
        (EntryType::Block, "a block device"),
        (EntryType::Fifo, "a named pipe"),
        (EntryType::Directory, "a directory"),
        (EntryType::GNULongName, "an extension header"),
        (EntryType::GNULongLink, "an extension header"),
        (EntryType::XHeader, "an extension header"),
        (EntryType::XGlobalHeader, "an extension header"),
        (EntryType::GNUSparse, "a sparse file"),
        (EntryType::Continuous, "of an unknown kind"),
    ] {
        let bytes = named(|tar| tar.kind(kind, "tools/a").file("tools/b", b"two"));
        let error = open(&bytes);
        assert!(
            matches!(&error, Error::Kind { path, kind } if path == "tools/a" && *kind == word),
            "{kind:?}: {error}"
        );
        let first = xz(&Tar::default().kind(kind, "manifest.json").end());
        assert!(matches!(open(&first), Error::Kind { .. }), "{kind:?} first");
        assert!(Manifest::read_from(&first[..]).is_err(), "{kind:?} first");
    }
}

#[test]
fn a_link_behind_the_last_file_is_refused_too() {
    let bytes = named(|tar| {
        tar.file("tools/a", b"one").file("tools/b", b"two").link(
            EntryType::Symlink,
            "tools/c",
            "/etc",
        )
    });
    assert!(matches!(open(&bytes), Error::Kind { .. }));
}

#[test]
fn a_long_name_in_front_of_a_file_does_not_rename_it() {
    // GNU tar would unpack the next entry as `../../escape`.
    let mut long = header("././@LongLink", 13);
    long.set_entry_type(EntryType::GNULongName);
    long.set_cksum();
    let bytes = named(|tar| tar.entry(&long, b"../../escape\0").file("tools/a", b"one"));
    assert!(matches!(open(&bytes), Error::Kind { .. }));
}

#[test]
fn paths_that_leave_the_bundle_are_refused_in_header_and_manifest() {
    for path in [
        "/etc/passwd",
        "../tools/a",
        "tools/../../a",
        "tools/./a",
        "tools//a",
        "etc/passwd",
        "tools/-x",
        "tools/a b",
    ] {
        let bytes = named(|tar| tar.file(path, b"one"));
        assert!(matches!(open(&bytes), Error::Path { .. }), "header {path}");

        let json = manifest(&[line(path, b"one")]);
        let bytes = xz(&Tar::default()
            .file("manifest.json", json.as_bytes())
            .file(path, b"one")
            .end());
        assert!(
            matches!(open(&bytes), Error::Path { .. }),
            "manifest {path}"
        );
        assert!(
            matches!(Manifest::read_from(&bytes[..]), Err(Error::Path { .. })),
            "manifest alone {path}"
        );
    }
}

#[test]
fn control_characters_do_not_reach_the_message() {
    let bytes = named(|tar| tar.file("tools/\x1b]0;x\x07", b"one"));
    let message = open(&bytes).to_string();
    assert!(!message.chars().any(char::is_control), "{message:?}");
    let mut header = header("tools/", 0);
    header.as_gnu_mut().expect("gnu").name[6] = 0xff;
    header.set_cksum();
    let bytes = named(|tar| tar.entry(&header, b""));
    assert!(matches!(open(&bytes), Error::Path { .. }));
}

#[test]
fn files_come_once_and_in_the_manifest_s_order() {
    let twice = named(|tar| {
        tar.file("tools/a", b"one")
            .file("tools/a", b"one")
            .file("tools/b", b"two")
    });
    assert!(matches!(open(&twice), Error::Conflict { path } if path == "tools/a"));

    let again = named(|tar| {
        tar.file("tools/a", b"one")
            .file("tools/b", b"two")
            .file("tools/a", b"evil")
    });
    assert!(matches!(open(&again), Error::Conflict { path } if path == "tools/a"));

    let swapped = named(|tar| tar.file("tools/b", b"two").file("tools/a", b"one"));
    assert!(matches!(
        open(&swapped),
        Error::Unexpected { expected, found } if expected == "tools/a" && found == "tools/b"
    ));
}

#[test]
fn nothing_is_missing_and_nothing_is_more() {
    let missing = named(|tar| tar.file("tools/a", b"one"));
    assert!(matches!(
        open(&missing),
        Error::Unexpected { expected, found } if expected == "tools/b" && found == "the end"
    ));
    let more = named(|tar| {
        tar.file("tools/a", b"one")
            .file("tools/b", b"two")
            .file("tools/c", b"")
    });
    assert!(matches!(
        open(&more),
        Error::Unexpected { expected, found } if expected == "the end" && found == "tools/c"
    ));
}

#[test]
fn the_manifest_is_first_and_is_there_once() {
    let late = xz(&Tar::default()
        .file("tools/a", b"one")
        .file("manifest.json", manifest(&[]).as_bytes())
        .end());
    assert!(matches!(open(&late), Error::Unexpected { .. }));
    assert!(matches!(open(&xz(&[0; 1024])), Error::Unexpected { .. }));
    let twice = named(|tar| tar.file("manifest.json", b"{}"));
    assert!(matches!(open(&twice), Error::Path { .. }));
}

#[test]
fn size_mode_and_hash_are_the_manifest_s() {
    let longer = named(|tar| tar.file("tools/a", b"one!").file("tools/b", b"two"));
    assert!(matches!(
        open(&longer),
        Error::Mismatch { what: "size", .. }
    ));
    let other = named(|tar| tar.file("tools/a", b"eno").file("tools/b", b"two"));
    assert!(matches!(
        open(&other),
        Error::Mismatch {
            what: "SHA-256",
            ..
        }
    ));
    let mut set_uid = header("tools/a", 3);
    set_uid.set_mode(0o4755);
    set_uid.set_cksum();
    let set_uid = named(|tar| tar.entry(&set_uid, b"one").file("tools/b", b"two"));
    assert!(matches!(
        open(&set_uid),
        Error::Mismatch { what: "mode", .. }
    ));
}

#[test]
fn a_bundle_cut_at_any_byte_is_refused() {
    let good = named(|tar| tar.file("tools/a", b"one").file("tools/b", b"two"));
    for cut in 0..good.len() {
        open(&good[..cut]);
    }
}

#[test]
fn a_bundle_with_any_byte_changed_is_refused() {
    let good = named(|tar| tar.file("tools/a", b"one").file("tools/b", b"two"));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        open(&bad);
    }
}

#[test]
fn bytes_behind_the_end_are_refused_wherever_they_hide() {
    let good = named(|tar| tar.file("tools/a", b"one").file("tools/b", b"two"));
    let behind_xz = [&good[..], b"x"].concat();
    assert!(matches!(open(&behind_xz), Error::Trailing));
    // `xz -d` would go on with the second stream.
    let second_stream = [&good[..], &xz(b"more")[..]].concat();
    assert!(matches!(open(&second_stream), Error::Trailing));

    let archive = |tail: &[u8]| {
        let json = manifest(&[]);
        let mut bytes = Tar::default().file("manifest.json", json.as_bytes()).end();
        bytes.extend_from_slice(tail);
        xz(&bytes)
    };
    assert!(Bundle::read_from(&archive(&[0; 512 * 8])[..]).is_ok());
    assert!(matches!(open(&archive(b"x")), Error::Trailing));
    assert!(matches!(open(&archive(&[0; 512 * 21])), Error::Trailing));
}

#[test]
fn headers_that_promise_terabytes_reserve_nothing() {
    let mut huge = header("manifest.json", 0);
    huge.set_size(1 << 40);
    huge.set_cksum();
    let bytes = xz(&Tar::default().entry(&huge, b"{}").end());
    assert!(matches!(open(&bytes), Error::TooLarge { .. }));
    assert!(matches!(
        Manifest::read_from(&bytes[..]),
        Err(Error::TooLarge { .. })
    ));

    let mut huge = header("tools/a", 0);
    huge.set_size(u64::MAX);
    huge.set_cksum();
    let bytes = named(|tar| tar.entry(&huge, b"one"));
    open(&bytes);
}

#[test]
fn a_bomb_costs_neither_its_expanded_size_nor_its_dictionary() {
    // 16 MiB of zeros behind the archive, 3 kB compressed.
    let json = manifest(&[]);
    let mut bytes = Tar::default().file("manifest.json", json.as_bytes()).end();
    bytes.resize(16 << 20, 0);
    assert!(matches!(open(&xz(&bytes)), Error::Trailing));

    // A dictionary of 256 MiB that a decoder would have to allocate.
    let mut options = LzmaOptions::new_preset(0).expect("preset 0");
    options.dict_size(256 << 20);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let stream = Stream::new_stream_encoder(&filters, Check::Crc64).expect("memory");
    let mut encoder = XzEncoder::new_stream(Vec::new(), stream);
    encoder
        .write_all(&Tar::default().file("manifest.json", json.as_bytes()).end())
        .expect("memory");
    let bytes = encoder.finish().expect("memory");
    assert!(matches!(open(&bytes), Error::Damaged { .. }));
}

#[test]
fn what_is_no_bundle_at_all_is_told_so() {
    for bytes in [&b""[..], b"PK\x03\x04", b"\xfd7zXZ\0", &[0; 4096]] {
        assert!(matches!(open(bytes), Error::Damaged { .. }));
        assert!(Manifest::read_from(bytes).is_err());
    }
    let error = Bundle::open("/nonexistent/bundle").expect_err("absent");
    assert!(matches!(error, Error::Io { .. }));
}
