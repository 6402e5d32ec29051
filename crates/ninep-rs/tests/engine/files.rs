//! Directory listings and read-only files.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ninep_rs::{
    Directory, File, Listing, Node, OpenMode, Qid, Refusal, Snapshot, Stat, Text, ename,
};

/// 2 + 39 + four strings of 2 + their length: names of one letter and "none" three times make 2 + 39 + 3 + 18 = 62.
const ENTRY: u32 = 62;

async fn read(file: &Arc<impl File>, offset: u64, count: u32) -> Result<Bytes, Refusal> {
    Arc::clone(file).read(offset, count).await
}

fn entry(name: &str) -> Stat {
    Stat::new(name, Qid::file(1), 0o444)
}

#[tokio::test]
async fn a_listing_gives_whole_entries_of_the_moment_it_was_begun() {
    let names = Arc::new(Mutex::new(vec!["a", "b", "c"]));
    let listing = Arc::new(Listing::new({
        let names = Arc::clone(&names);
        move || {
            names
                .lock()
                .unwrap()
                .iter()
                .map(|name| entry(name))
                .collect()
        }
    }));
    let first = read(&listing, 0, 2 * ENTRY + 10).await.unwrap();
    assert_eq!(
        Stat::decode_all(first.clone()).unwrap(),
        [entry("a"), entry("b")]
    );
    assert_eq!(first.len(), 2 * ENTRY as usize);
    *names.lock().unwrap() = vec!["z"];
    let offset = u64::from(2 * ENTRY);
    let bad_offset = Err(Refusal::new(ename::DIRECTORY_OFFSET));
    assert_eq!(read(&listing, offset - 1, 8192).await, bad_offset);
    let rest = read(&listing, offset, 8192).await.unwrap();
    assert_eq!(Stat::decode_all(rest).unwrap(), [entry("c")]);
    assert_eq!(
        read(&listing, offset + u64::from(ENTRY), 8192).await,
        Ok(Bytes::new())
    );
    let again = read(&listing, 0, 8192).await.unwrap();
    assert_eq!(Stat::decode_all(again).unwrap(), [entry("z")]);
    let too_short = Err(Refusal::new(ename::DIRECTORY_COUNT));
    assert_eq!(read(&listing, 0, ENTRY - 1).await, too_short);
}

#[tokio::test]
async fn a_directory_lists_what_its_files_say_of_themselves() {
    let text: Arc<dyn Node> = Arc::new(Text::new("t", 2, || Bytes::from_static(b"four")));
    let directory = Directory::new("d", 1, vec![Arc::clone(&text)]).owned_by("glenda");
    assert_eq!(directory.stat().uid, "glenda");
    assert_eq!(directory.stat().mode, Stat::DIR | 0o555);
    let listing = directory.open(OpenMode::READ).unwrap();
    let entries = Stat::decode_all(listing.read(0, 8192).await.unwrap()).unwrap();
    assert_eq!(entries, [text.stat()]);
    assert_eq!(entries[0].length, 4);
    assert_eq!(directory.walk("t").unwrap().qid(), text.qid());
    assert!(directory.walk("u").is_err());
}

#[tokio::test]
async fn a_snapshot_reads_from_any_offset_and_ends_where_it_ends() {
    let snapshot = Arc::new(Snapshot::new("0123456789"));
    for (offset, count, expected) in [
        (0, 4, "0123"),
        (8, 4, "89"),
        (10, 4, ""),
        (11, 4, ""),
        (u64::MAX, u32::MAX, ""),
        (3, u32::MAX, "3456789"),
    ] {
        assert_eq!(read(&snapshot, offset, count).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn an_open_text_stays_what_it_was() {
    let content = Arc::new(Mutex::new("before"));
    let text = Text::new("t", 2, {
        let content = Arc::clone(&content);
        move || Bytes::from_static(content.lock().unwrap().as_bytes())
    });
    let open = text.open(OpenMode::READ).unwrap();
    *content.lock().unwrap() = "afterwards";
    assert_eq!(Arc::clone(&open).read(0, 99).await.unwrap(), "before");
    assert_eq!(text.stat().length, 10);
}
