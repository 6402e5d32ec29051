//! An implementation by somebody else, the `ninep` crate, at the other end.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ninep::fs::{FileType, Mode, Perm};
use ninep_rs::{Client, ClientConfig, OpenMode, ServerConfig, Stat, ename, serve};

use crate::ramfs::RamFs;

fn stream(socket: UnixStream) -> tokio::net::UnixStream {
    socket.set_nonblocking(true).unwrap();
    tokio::net::UnixStream::from_std(socket).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_client_works_with_our_server() {
    let (near, far) = UnixStream::pair().unwrap();
    let (reader, writer) = stream(far).into_split();
    let server = tokio::spawn(serve(
        reader,
        writer,
        Arc::new(RamFs::new("glenda")),
        ServerConfig::default(),
    ));
    tokio::task::spawn_blocking(move || {
        let client = ninep::sync::client::Client::new_from_unix_stream("glenda", "", near).unwrap();
        let all = Perm::any_read() | Perm::any_write() | Perm::any_exec();
        client.create("/", "poem", all, Mode::READ).unwrap();
        let directory = all | FileType::DIRECTORY.into();
        client.create("/", "drawer", directory, Mode::READ).unwrap();
        // It keeps the fid of a path, and opens it again although open(5) forbids that.
        let done_with = |path: &str| client.clunk_path(path).unwrap();
        done_with("/poem");
        done_with("/drawer");
        let long = "so much depends upon\n".repeat(3000);
        let mut written = 0;
        while written < long.len() {
            let end = long.len().min(written + 8000);
            let offset = u64::try_from(written).unwrap();
            written += client
                .write("/poem", offset, &long.as_bytes()[written..end])
                .unwrap();
            done_with("/poem");
        }
        assert_eq!(client.read_str("/poem").unwrap(), long);
        done_with("/poem");
        assert_eq!(client.read_from("/poem", 8, 7).unwrap(), b"depends");
        done_with("/poem");
        let poem = client.stat("/poem").unwrap();
        assert_eq!((poem.name.as_str(), poem.n_bytes), ("poem", 63_000));
        let missing = client.read("/nothing").unwrap_err().to_string();
        assert!(missing.contains(ename::NOT_FOUND), "{missing}");
        client.create("/drawer", "note", all, Mode::READ).unwrap();
        let names = |path: &str| -> Vec<String> {
            let stats = client.read_dir(path).unwrap();
            stats.into_iter().map(|stat| stat.name).collect()
        };
        assert_eq!(names("/drawer"), ["note"]);
        client.remove("/poem").unwrap();
        // Last, because it opens its root and then cannot walk from it any more: walk(5).
        assert_eq!(names("/"), ["drawer"]);
    })
    .await
    .unwrap();
    assert!(server.await.unwrap().is_ok());
}

#[tokio::test]
async fn our_client_works_with_its_server() {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let tree = ninep::util::ram::RamFs::new("glenda", "glenda");
        ninep::sync::server::Server::new(tree).handle_single_client_stream(far);
    });
    let (reader, writer) = stream(near).into_split();
    let client = Client::spawn(reader, writer, ClientConfig::default());
    client.version().await.unwrap();
    let (root, attached) = client.attach(None, "glenda", "");
    assert!(attached.await.unwrap().is_dir());

    let (poem, walked) = root.walk([]);
    walked.await.unwrap();
    poem.create("poem", 0o644, OpenMode::READ_WRITE)
        .await
        .unwrap();
    let long = "so much depends upon\n".repeat(3000);
    poem.write_all(0, long.clone()).await.unwrap();
    assert_eq!(poem.read_to_end(0, 100_000).await.unwrap(), long);
    poem.clunk().await.unwrap();

    // Back to back, without waiting in between.
    let (poem, walked) = root.walk(["poem"]);
    let opened = poem.open(OpenMode::READ);
    let read = poem.read(8, 7);
    assert_eq!(walked.await.unwrap().len(), 1);
    opened.await.unwrap();
    assert_eq!(read.await.unwrap(), "depends");

    let (directory, walked) = root.walk([]);
    walked.await.unwrap();
    directory.open(OpenMode::READ).await.unwrap();
    let names: Vec<_> = directory.read_directory().await.unwrap();
    assert_eq!(
        names.iter().map(|stat| &stat.name).collect::<Vec<_>>(),
        ["poem"]
    );
    let mut change = Stat::untouched();
    change.name = "ode".to_owned();
    let (renamed, walked) = root.walk(["poem"]);
    walked.await.unwrap();
    // stat(5) has a "don't touch" for the qid, too; this server wants the file's own.
    change.qid = renamed.stat().await.unwrap().qid;
    renamed.wstat(change).await.unwrap();
    assert!(root.walk_path("ode").await.is_ok());
    assert!(root.walk_path("poem").await.is_err());
    root.walk_path("ode").await.unwrap().remove().await.unwrap();
    assert!(root.walk_path("ode").await.is_err());
}
