//! A small tree whose files block when told to, a raw peer that speaks single messages, and a client.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use ninep_rs::{
    Answer, AuthFile, Client, ClientConfig, Directory, Error, Fid, File, Frames, Node, OpenMode,
    Qid, Refusal, Rmessage, ServerConfig, Service, Stat, Tag, Text, Tmessage, VERSION, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

pub(crate) const SECRET: &[u8] = b"open sesame";
pub(crate) const HELLO: &str = "hello, world\n";

/// Waits for what must come; a test whose answer never comes fails instead of hanging.
pub(crate) async fn within<F: Future>(what: F) -> F::Output {
    const LONG: std::time::Duration = std::time::Duration::from_secs(20);
    tokio::time::timeout(LONG, what)
        .await
        .expect("nothing came for 20 seconds")
}

/// What the test sees of the tree, and how it moves it.
pub(crate) struct World {
    bytes: Mutex<VecDeque<u8>>,
    changed: Notify,
    /// Permits for writes to `gate`: each takes one.
    pub(crate) gate: Semaphore,
    /// What `gate` took, in order.
    pub(crate) taken: Mutex<Vec<Bytes>>,
    /// Bytes that `zero` gave.
    pub(crate) zeros: AtomicUsize,
    /// Open files that are alive.
    pub(crate) files: Count,
    /// Reads and writes that began and neither ended nor were dropped.
    pub(crate) running: Count,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(World {
            bytes: Mutex::default(),
            changed: Notify::new(),
            gate: Semaphore::new(0),
            taken: Mutex::default(),
            zeros: AtomicUsize::new(0),
            files: Count::default(),
            running: Count::default(),
        })
    }

    /// Gives the fids of `pipe` something to read.
    pub(crate) fn put(&self, bytes: &[u8]) {
        self.bytes.lock().unwrap().extend(bytes);
        self.changed.notify_waiters();
    }

    fn take(&self, count: u32) -> Option<Bytes> {
        let mut bytes = self.bytes.lock().unwrap();
        let most = bytes.len().min(count as usize);
        (most > 0).then(|| bytes.drain(..most).collect())
    }

    async fn get(&self, count: u32) -> Bytes {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(bytes) = self.take(count) {
                return bytes;
            }
            changed.await;
        }
    }
}

/// A number that tests can wait for.
#[derive(Default)]
pub(crate) struct Count {
    number: AtomicUsize,
    changed: Notify,
}

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.number.load(Ordering::SeqCst)
    }

    /// Waits until the number is `wanted`.
    pub(crate) async fn reaches(&self, wanted: usize) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.get() == wanted {
                return;
            }
            within(changed).await;
        }
    }
}

/// Counts itself while it lives.
struct Counted<F: Fn(&World) -> &Count>(Arc<World>, F);

impl<F: Fn(&World) -> &Count> Counted<F> {
    fn new(world: &Arc<World>, which: F) -> Self {
        which(world).number.fetch_add(1, Ordering::SeqCst);
        which(world).changed.notify_waiters();
        Counted(Arc::clone(world), which)
    }
}

impl<F: Fn(&World) -> &Count> Drop for Counted<F> {
    fn drop(&mut self) {
        let count = (self.1)(&self.0);
        count.number.fetch_sub(1, Ordering::SeqCst);
        count.changed.notify_waiters();
    }
}

/// How a leaf of the tree behaves.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Reads wait for [`World::put`]; writes are taken at once.
    Pipe,
    /// Writes wait for [`World::gate`]; reads say "gate".
    Gate,
    /// Reads give as many zeros as are asked for.
    Zero,
    /// Reads give one byte more than asked for, writes claim one more than given.
    Liar,
    /// Reads panic when polled, writes when called, the drop of the file panics too.
    Bomb,
    /// Its open panics.
    Mine,
    /// Reading it closes the connection.
    Door,
}

struct Leaf {
    world: Arc<World>,
    name: &'static str,
    path: u64,
    kind: Kind,
}

impl Node for Leaf {
    fn qid(&self) -> Qid {
        Qid::file(self.path)
    }

    fn stat(&self) -> Stat {
        Stat::new(self.name, self.qid(), 0o666)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        assert!(self.kind != Kind::Mine, "the mine went off");
        Ok(Arc::new(OpenLeaf {
            world: Arc::clone(&self.world),
            kind: self.kind,
            _counted: Box::new(Counted::new(&self.world, |world| &world.files)),
        }))
    }

    fn remove(&self) -> Result<(), Refusal> {
        match self.kind {
            Kind::Zero => Ok(()),
            _ => Err(Refusal::denied()),
        }
    }
}

/// A directory that holds itself.
struct Well;

impl Node for Well {
    fn qid(&self) -> Qid {
        Qid::directory(20)
    }

    fn stat(&self) -> Stat {
        Stat::new("well", self.qid(), 0o555)
    }

    fn walk(&self, _name: &str) -> Result<Arc<dyn Node>, Refusal> {
        Ok(Arc::new(Well))
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Err(Refusal::denied())
    }
}

struct OpenLeaf {
    world: Arc<World>,
    kind: Kind,
    _counted: Box<dyn std::any::Any + Send + Sync>,
}

impl File for OpenLeaf {
    fn read(self: Arc<Self>, _offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let _running = Counted::new(&self.world, |world| &world.running);
            match self.kind {
                Kind::Pipe => Ok(self.world.get(count).await),
                Kind::Gate => Ok(Bytes::from_static(b"gate")),
                Kind::Zero => {
                    self.world.zeros.fetch_add(count as usize, Ordering::SeqCst);
                    Ok(Bytes::from(vec![0; count as usize]))
                }
                Kind::Liar => Ok(Bytes::from(vec![0; count as usize + 1])),
                Kind::Door => Err(Refusal::closing("the door is shut")),
                Kind::Bomb | Kind::Mine => panic!("a read panics"),
            }
        })
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        assert!(self.kind != Kind::Bomb, "a write panics");
        Box::pin(async move {
            let _running = Counted::new(&self.world, |world| &world.running);
            let length = u32::try_from(data.len()).unwrap();
            if self.kind == Kind::Gate {
                self.world.gate.acquire().await.unwrap().forget();
                self.world.taken.lock().unwrap().push(data);
            }
            Ok(match self.kind {
                Kind::Liar => length + 1,
                _ => length,
            })
        })
    }
}

impl Drop for OpenLeaf {
    fn drop(&mut self) {
        assert!(self.kind != Kind::Bomb, "a drop panics");
    }
}

/// The tree: with `auth`, only the secret opens it.
pub(crate) struct Tree {
    pub(crate) world: Arc<World>,
    pub(crate) auth: bool,
}

impl Tree {
    fn root(&self) -> Directory {
        let leaves = [
            ("pipe", 2, Kind::Pipe),
            ("gate", 3, Kind::Gate),
            ("zero", 4, Kind::Zero),
            ("liar", 5, Kind::Liar),
            ("bomb", 6, Kind::Bomb),
            ("mine", 7, Kind::Mine),
            ("door", 8, Kind::Door),
        ];
        let leaves = leaves.map(|(name, path, kind)| {
            let world = Arc::clone(&self.world);
            Arc::new(Leaf {
                world,
                name,
                path,
                kind,
            }) as Arc<dyn Node>
        });
        let hello = Text::new("hello", 10, || Bytes::from_static(HELLO.as_bytes()));
        let inner: Arc<dyn Node> = Arc::new(Directory::new("sub", 11, vec![Arc::new(hello)]));
        let files = leaves.into_iter().chain([inner, Arc::new(Well)]).collect();
        Directory::new("/", 1, files)
    }
}

impl Service for Tree {
    fn auth(&self, uname: &str, _aname: &str) -> Result<Box<dyn AuthFile>, Refusal> {
        if !self.auth {
            return Err(Refusal::new(ninep_rs::ename::AUTH_NOT_REQUIRED));
        }
        Ok(Box::new(Door {
            done: AtomicBool::new(false),
            greeting: format!("welcome {uname}"),
        }))
    }

    fn attach(
        &self,
        _uname: &str,
        _aname: &str,
        auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        if self.auth && !auth.is_some_and(AuthFile::done) {
            return Err(Refusal::closing("prove who you are first"));
        }
        Ok(Arc::new(self.root()))
    }
}

struct Door {
    done: AtomicBool,
    greeting: String,
}

impl AuthFile for Door {
    fn read(&self, _count: u32) -> Result<Bytes, Refusal> {
        match self.done() {
            true => Ok(Bytes::from(self.greeting.clone())),
            false => Err(Refusal::new("write the secret first")),
        }
    }

    fn write(&self, data: &[u8]) -> Result<u32, Refusal> {
        if data != SECRET {
            return Err(Refusal::closing("wrong secret"));
        }
        self.done.store(true, Ordering::SeqCst);
        Ok(u32::try_from(data.len()).unwrap())
    }

    fn done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }
}

/// A served connection, seen from the peer, message by message.
pub(crate) struct Peer {
    pub(crate) reader: ReadHalf<DuplexStream>,
    pub(crate) writer: WriteHalf<DuplexStream>,
    frames: Frames,
    pub(crate) server: JoinHandle<Result<(), Error>>,
}

impl Peer {
    /// Connects through a pipe that holds `room` bytes each way.
    pub(crate) fn connect_with(tree: Tree, config: ServerConfig, room: usize) -> Self {
        let (near, far) = tokio::io::duplex(room);
        let (far_reader, far_writer) = tokio::io::split(far);
        let server = tokio::spawn(serve(far_reader, far_writer, Arc::new(tree), config));
        let (reader, writer) = tokio::io::split(near);
        Peer {
            reader,
            writer,
            frames: Frames::new(),
            server,
        }
    }

    pub(crate) fn connect(world: &Arc<World>) -> Self {
        let tree = Tree {
            world: Arc::clone(world),
            auth: false,
        };
        Self::connect_with(tree, ServerConfig::default(), 1 << 20)
    }

    /// Connects and attaches fid 0 to the root.
    pub(crate) async fn attached(world: &Arc<World>) -> Self {
        let mut peer = Self::connect(world);
        peer.attach().await;
        peer
    }

    pub(crate) fn connect_guarded(world: &Arc<World>) -> Self {
        let tree = Tree {
            world: Arc::clone(world),
            auth: true,
        };
        Self::connect_with(tree, ServerConfig::default(), 1 << 20)
    }

    /// The rest of the answers, then how the server ended.
    pub(crate) async fn end(mut self) -> (Vec<(Tag, Rmessage)>, Result<(), Error>) {
        let mut answers = Vec::new();
        while let Some(answer) = self.next().await {
            answers.push(answer);
        }
        (answers, self.server.await.unwrap())
    }

    pub(crate) async fn attach(&mut self) {
        self.send(&[
            (Tag::NONE, version(1 << 20)),
            (Tag(0), attach(0, Fid::NONE)),
        ])
        .await;
        self.answers(2).await;
    }

    pub(crate) async fn send(&mut self, messages: &[(Tag, Tmessage)]) {
        let mut bytes = BytesMut::new();
        for (tag, message) in messages {
            message.encode(*tag, &mut bytes).unwrap();
        }
        self.writer.write_all(&bytes).await.unwrap();
    }

    /// The next answer; `None` when the server has closed.
    pub(crate) async fn next(&mut self) -> Option<(Tag, Rmessage)> {
        loop {
            if let Some(frame) = self.frames.next(u32::MAX).unwrap() {
                return Some(Rmessage::decode(frame).unwrap());
            }
            if within(self.reader.read_buf(self.frames.space()))
                .await
                .unwrap()
                == 0
            {
                return None;
            }
        }
    }

    pub(crate) async fn answers(&mut self, number: usize) -> Vec<(Tag, Rmessage)> {
        let mut answers = Vec::new();
        for _ in 0..number {
            answers.push(self.next().await.expect("the server closed"));
        }
        answers
    }

    /// Sends one request with tag 1 and returns its answer, which must be the next one.
    pub(crate) async fn ask(&mut self, message: Tmessage) -> Rmessage {
        self.send(&[(Tag(1), message)]).await;
        let (tag, answer) = self.next().await.expect("the server closed");
        assert_eq!(tag, Tag(1));
        answer
    }

    /// Opens the file `name` of the root as `fid`.
    pub(crate) async fn open(&mut self, fid: u32, name: &str) {
        self.send(&[(Tag(1), walk(0, fid, &[name])), (Tag(2), open(fid, 2))])
            .await;
        let answers = self.answers(2).await;
        assert!(
            matches!(answers[1].1, Rmessage::Open { .. }),
            "{name}: {answers:?}"
        );
    }
}

/// A client, attached, and the root of the tree.
pub(crate) async fn client(world: &Arc<World>) -> (Client, ninep_rs::Handle) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (far_reader, far_writer) = tokio::io::split(far);
    let tree = Tree {
        world: Arc::clone(world),
        auth: false,
    };
    tokio::spawn(serve(
        far_reader,
        far_writer,
        Arc::new(tree),
        ServerConfig::default(),
    ));
    let (reader, writer) = tokio::io::split(near);
    let client = Client::spawn(reader, writer, ClientConfig::default());
    client.version().await.unwrap();
    let (root, attached) = client.attach(None, "glenda", "");
    attached.await.unwrap();
    (client, root)
}

pub(crate) fn version(msize: u32) -> Tmessage {
    Tmessage::Version {
        msize,
        version: VERSION.to_owned(),
    }
}

pub(crate) fn attach(fid: u32, afid: Fid) -> Tmessage {
    Tmessage::Attach {
        fid: Fid(fid),
        afid,
        uname: "glenda".to_owned(),
        aname: String::new(),
    }
}

pub(crate) fn auth(afid: u32) -> Tmessage {
    Tmessage::Auth {
        afid: Fid(afid),
        uname: "glenda".to_owned(),
        aname: String::new(),
    }
}

pub(crate) fn walk(fid: u32, newfid: u32, names: &[&str]) -> Tmessage {
    Tmessage::Walk {
        fid: Fid(fid),
        newfid: Fid(newfid),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    }
}

pub(crate) fn open(fid: u32, mode: u8) -> Tmessage {
    Tmessage::Open {
        fid: Fid(fid),
        mode,
    }
}

pub(crate) fn read(fid: u32, count: u32) -> Tmessage {
    Tmessage::Read {
        fid: Fid(fid),
        offset: 0,
        count,
    }
}

pub(crate) fn write(fid: u32, data: &[u8]) -> Tmessage {
    Tmessage::Write {
        fid: Fid(fid),
        offset: 0,
        data: Bytes::copy_from_slice(data),
    }
}

pub(crate) fn clunk(fid: u32) -> Tmessage {
    Tmessage::Clunk { fid: Fid(fid) }
}

pub(crate) fn flush(oldtag: u16) -> Tmessage {
    Tmessage::Flush {
        oldtag: Tag(oldtag),
    }
}

pub(crate) fn stat(fid: u32) -> Tmessage {
    Tmessage::Stat { fid: Fid(fid) }
}

pub(crate) fn data(bytes: &[u8]) -> Rmessage {
    Rmessage::Read {
        data: Bytes::copy_from_slice(bytes),
    }
}

pub(crate) fn error(ename: &str) -> Rmessage {
    Rmessage::Error {
        ename: ename.to_owned(),
    }
}
