use crate::harness::*;
use ninep_rs::{OpenMode, Qid, Rmessage, Tag, ename};

#[tokio::test]
async fn a_walk_an_open_and_a_read_in_one_burst_read_the_file() {
    let world = World::new();
    let mut peer = Peer::connect(&world);
    peer.send(&[
        (Tag::NONE, version(8192)),
        (Tag(0), attach(0, ninep_rs::Fid::NONE)),
        (Tag(1), walk(0, 1, &["sub", "hello"])),
        (Tag(2), open(1, 0)),
        (Tag(3), read(1, 100)),
        (Tag(4), clunk(1)),
    ])
    .await;
    let expected = [
        (
            Tag::NONE,
            Rmessage::Version {
                msize: 8192,
                version: "9P2000".to_owned(),
            },
        ),
        (
            Tag(0),
            Rmessage::Attach {
                qid: Qid::directory(1),
            },
        ),
        (
            Tag(1),
            Rmessage::Walk {
                qids: vec![Qid::directory(11), Qid::file(10)],
            },
        ),
        (
            Tag(2),
            Rmessage::Open {
                qid: Qid::file(10),
                iounit: 8192 - 24,
            },
        ),
        (Tag(3), data(HELLO.as_bytes())),
        (Tag(4), Rmessage::Clunk),
    ];
    assert_eq!(peer.answers(6).await, expected);
}

#[tokio::test]
async fn the_client_reads_a_file_in_one_burst() {
    let world = World::new();
    let (_client, root) = client(&world).await;
    let (file, walked) = root.walk(["sub", "hello"]);
    let opened = file.open(OpenMode::READ);
    let content = file.read(0, 8192);
    assert_eq!(walked.await.unwrap().len(), 2);
    assert_eq!(opened.await.unwrap().0, Qid::file(10));
    assert_eq!(content.await.unwrap(), HELLO);
    let listed = root.walk_path("sub").await.unwrap();
    listed.open(OpenMode::READ).await.unwrap();
    let entries = listed.read_directory().await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0], file.stat().await.unwrap());
    let missing = root.walk_path("nothing").await.unwrap_err();
    assert_eq!(missing.to_string(), ename::NOT_FOUND);
}
