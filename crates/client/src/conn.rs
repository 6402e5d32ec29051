use ninep_rs::{Client, ClientConfig, Handle, OpenMode, Pending, Qid, Stat};
use ollie_protocol::auth::{Handshake, LEN};
use ollie_protocol::{
    HostFacts, Key, Nonce, Octets, ProjectRecord, Proof, ToolCall, TurnedAway, VersionRecord, tree,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::call::Ahead;
use crate::{Call, Error};

/// The longest file of the tree that is read whole, in bytes.
const FILE_MAX: usize = 4 * 1024 * 1024;

/// Bytes of a nonce and of a proof.
const PROOF: u32 = 32;

/// The longest answer to a question, in bytes: a verdict with two paths.
const ANSWER_MAX: u32 = 64 * 1024;

/// Who connects, and how it can prove it.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// The session's secret on its first connection, later a token
    /// ([`Key::token`]).
    pub key: &'a Key,
    /// The session's name, the uname.
    pub session: &'a str,
    /// The agent's name or [`ollie_protocol::auth::OWNER`], the aname.
    pub agent: &'a str,
    /// The server's nonce, if the ready line of this very stream gave it.
    /// Without it the handshake costs one round trip more.
    pub nonce: Option<Nonce>,
}

/// An authenticated connection to a session's toolsrv, local or remote alike.
#[derive(Debug)]
pub struct ToolsrvConn {
    client: Client,
    root: Handle,
    ahead: Ahead,
}

/// Connects to a toolsrv over a byte stream that leads to it. Both sides
/// prove that they know the key; nothing else is sent before the other side
/// has.
///
/// # Errors
/// [`Error::Impostor`] and [`Error::NotAccepted`] are final: trying again
/// gives the same answer. [`Error::Lost`] if the stream ends.
pub async fn dial_toolsrv(
    reader: impl AsyncRead + Unpin + Send + 'static,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    credentials: Credentials<'_>,
    config: ClientConfig,
) -> Result<ToolsrvConn, Error> {
    open_toolsrv(reader, writer, credentials, config)
        .await?
        .proved()
        .await
}

/// The first half of [`dial_toolsrv`]: everything up to Tattach is on its way
/// when this returns, and nothing is proved yet.
///
/// # Errors
/// As [`dial_toolsrv`], for the nonce where it has to be asked for.
pub async fn open_toolsrv(
    reader: impl AsyncRead + Unpin + Send + 'static,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    credentials: Credentials<'_>,
    config: ClientConfig,
) -> Result<Opening, Error> {
    let client = Client::spawn(reader, writer, config);
    let random = |error| Error::Random(format!("{error}"));

    let version = client.version();
    let (afid, authenticating) = client.auth(credentials.session, credentials.agent);
    let server = match credentials.nonce {
        Some(nonce) => nonce,
        None => {
            let bytes = afid.read(0, PROOF).await.map_err(Error::NotAccepted)?;
            Nonce::from_bytes(exactly(&bytes)?)
        }
    };
    let nonce = Nonce::random().map_err(random)?;
    let handshake = Handshake {
        server,
        client: nonce,
        uname: credentials.session,
        aname: credentials.agent,
    };
    let proof = credentials.key.client_proof(&handshake);
    let mut written = nonce.as_bytes().to_vec();
    written.extend_from_slice(proof.as_bytes());
    let writing = afid.write(0, written);
    let reading = afid.read(0, PROOF);
    let (root, attaching) = client.attach(Some(&afid), credentials.session, credentials.agent);
    Ok(Opening {
        client,
        root,
        ahead: Ahead::new(),
        expected: credentials.key.server_proof(&handshake),
        has_the_secret: credentials.nonce.is_some(),
        version,
        authenticating,
        writing,
        reading,
        attaching,
        _afid: afid,
    })
}

/// A connection whose handshake is on its way.
#[derive(Debug)]
pub struct Opening {
    client: Client,
    root: Handle,
    ahead: Ahead,
    expected: Proof,
    /// Whether the secret itself went over this stream before.
    has_the_secret: bool,
    version: Pending<u32>,
    authenticating: Pending<Qid>,
    writing: Pending<u32>,
    reading: Pending<bytes::Bytes>,
    attaching: Pending<Qid>,
    /// Its clunk would overtake the attach.
    _afid: Handle,
}

impl Opening {
    /// Starts the first call in the burst of the handshake, a round trip
    /// earlier than the proof allows. Nothing that it says is to be believed
    /// before [`Opening::proved`] has returned.
    ///
    /// `None` where that would show the call to somebody who may not see it,
    /// and for a call that is longer than what is taken before an attach. Only
    /// on the stream of the boot record it shows nothing: whoever is at its
    /// other end has the secret that was in that record, and with it the proof.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the call cannot be written as JSON.
    pub fn call(&self, call: &ToolCall) -> Result<Option<Call>, Error> {
        if !self.has_the_secret {
            return Ok(None);
        }
        Call::start_early(&self.client, &self.root, &self.ahead, call)
    }

    /// Waits until the other side has proved that it knows the key.
    ///
    /// # Errors
    /// As [`dial_toolsrv`].
    pub async fn proved(self) -> Result<ToolsrvConn, Error> {
        self.version.await?;
        self.authenticating.await.map_err(Error::NotAccepted)?;
        self.writing.await.map_err(Error::NotAccepted)?;
        let answer = self.reading.await.map_err(Error::NotAccepted)?;
        let theirs = Proof::from_bytes(exactly(&answer)?);
        if !theirs.matches(&self.expected) {
            return Err(Error::Impostor);
        }
        self.attaching.await.map_err(Error::NotAccepted)?;
        Ok(ToolsrvConn {
            client: self.client,
            root: self.root,
            ahead: self.ahead,
        })
    }
}

fn exactly(bytes: &[u8]) -> Result<[u8; LEN], Error> {
    bytes
        .try_into()
        .map_err(|_| Error::Protocol("an answer of the wrong length in the handshake"))
}

impl ToolsrvConn {
    /// Starts a tool call. Everything it needs is on its way when this
    /// returns; whether it runs is its first event.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the call cannot be written as JSON.
    pub fn call(&self, call: &ToolCall) -> Result<Call, Error> {
        Call::start(&self.client, &self.root, &self.ahead, call)
    }

    /// Writes a word to a call's `ctl`: `int`, `term`, `end`, `kill`, `eof`. It is
    /// on its way when this returns.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such call or word.
    pub fn control(
        &self,
        id: &str,
        word: &'static str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (file, walking) = self.root.walk([tree::PROC, id, tree::CTL]);
        let opening = file.open(OpenMode::WRITE);
        let writing = file.write(0, word.as_bytes());
        async move {
            // Its clunk would overtake the write.
            let _file = file;
            walking.await?;
            opening.await?;
            writing.await?;
            Ok(())
        }
    }

    /// Asks toolsrv to end, with everything it started.
    ///
    /// # Errors
    /// [`Error::Lost`] if it is gone already.
    pub async fn shut_down(&self) -> Result<(), Error> {
        self.command(tree::SHUTDOWN).await
    }

    /// Writes a word to toolsrv's own `ctl`.
    pub(crate) async fn command(&self, word: &str) -> Result<(), Error> {
        let (file, walking) = self.root.walk([tree::CTL]);
        let opening = file.open(OpenMode::WRITE);
        let writing = file.write(0, word.as_bytes().to_vec());
        walking.await?;
        opening.await?;
        writing.await?;
        Ok(())
    }

    pub(crate) fn root(&self) -> &Handle {
        &self.root
    }

    /// The most bytes of one write.
    pub(crate) fn max_data(&self) -> usize {
        self.client.max_data() as usize
    }

    /// Asks for a sign of life: one small message each way.
    ///
    /// # Errors
    /// [`Error::Lost`] if the connection has ended.
    pub async fn ping(&self) -> Result<(), Error> {
        self.root.stat().await?;
        Ok(())
    }

    /// The file `version`.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the record is not what this side knows.
    pub async fn version(&self) -> Result<VersionRecord, Error> {
        self.read_record(tree::VERSION, "version record").await
    }

    /// The file `host`.
    ///
    /// # Errors
    /// As [`ToolsrvConn::version`].
    pub async fn host(&self) -> Result<HostFacts, Error> {
        self.read_record(tree::HOST, "host record").await
    }

    /// The file `door`: who was not let in at the session's socket.
    ///
    /// # Errors
    /// As [`ToolsrvConn::version`].
    pub async fn turned_away(&self) -> Result<Vec<TurnedAway>, Error> {
        let bytes = self.read_file(tree::DOOR).await?;
        let lines = bytes.split(|&byte| byte == b'\n');
        let record = |line| {
            serde_json::from_slice(line).map_err(|source| Error::Malformed {
                record: "line of the door",
                source,
            })
        };
        lines.filter(|line| !line.is_empty()).map(record).collect()
    }

    /// The file `policy`, as the crate `sandbox` wrote it.
    ///
    /// # Errors
    /// As [`ToolsrvConn::version`].
    pub async fn policy<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.read_record(tree::POLICY, "policy record").await
    }

    /// Decides what becomes of the project's policy file: `ruling` is one of the
    /// crate `sandbox`. One burst.
    ///
    /// # Errors
    /// [`Error::Refused`] if the ruling cannot be carried out there; then
    /// nothing runs in this session.
    pub async fn decide(&self, ruling: &impl Serialize) -> Result<ProjectRecord, Error> {
        const RECORD: &str = "ruling";
        let json = serde_json::to_vec(ruling).map_err(|source| Error::Malformed {
            record: RECORD,
            source,
        })?;
        if json.len() > self.max_data() {
            return Err(Error::Protocol("a ruling that is longer than a message"));
        }
        self.ask(tree::PROJECT, json, "project record").await
    }

    /// What the session's policy says to an operation on a path of its host, as
    /// the crate `sandbox` wrote it.
    ///
    /// # Errors
    /// [`Error::Refused`] for an unknown operation.
    pub async fn why<T: DeserializeOwned>(
        &self,
        operation: &str,
        path: &Octets,
    ) -> Result<T, Error> {
        let question = [operation.as_bytes(), b" ", path.as_bytes()].concat();
        self.ask(tree::WHY, question, "verdict").await
    }

    /// Writes a question to a file and reads its answer, in one burst.
    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        question: Vec<u8>,
        record: &'static str,
    ) -> Result<T, Error> {
        let (file, walking) = self.root.walk([path]);
        let opening = file.open(OpenMode::READ_WRITE);
        let writing = file.write(0, question);
        let reading = file.read(0, ANSWER_MAX);
        walking.await?;
        opening.await?;
        writing.await?;
        let answer = reading.await?;
        serde_json::from_slice(&answer).map_err(|source| Error::Malformed { record, source })
    }

    /// Walks to a file of the tree, for whoever passes it on. The walk is on its
    /// way when this returns.
    pub fn walk(&self, path: &[&str]) -> (Handle, Pending<Vec<Qid>>) {
        self.root.walk(path.iter().copied())
    }

    /// Any file of the tree, whole, at most 4 MiB.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not there.
    pub async fn read_file(&self, path: &str) -> Result<bytes::Bytes, Error> {
        let names = path.split('/').filter(|name| !name.is_empty());
        let (file, walking) = self.root.walk(names);
        let opening = file.open(OpenMode::READ);
        walking.await?;
        opening.await?;
        Ok(file.read_to_end(0, FILE_MAX).await?)
    }

    /// The entries of a directory of the tree.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not there or no directory.
    pub async fn list(&self, path: &str) -> Result<Vec<Stat>, Error> {
        let bytes = self.read_file(path).await?;
        Ok(Stat::decode_all(bytes)?)
    }

    async fn read_record<T: DeserializeOwned>(
        &self,
        path: &str,
        record: &'static str,
    ) -> Result<T, Error> {
        let bytes = self.read_file(path).await?;
        serde_json::from_slice(&bytes).map_err(|source| Error::Malformed { record, source })
    }

    /// When the last byte came from toolsrv.
    #[must_use]
    pub fn last_heard(&self) -> std::time::Instant {
        self.client.last_heard()
    }

    /// Waits until the connection has ended, and says why.
    pub async fn closed(&self) -> std::sync::Arc<ninep_rs::Error> {
        self.client.closed().await
    }
}
