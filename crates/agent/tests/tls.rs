//! TLS with an authority of our own.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use futures_util::StreamExt as _;
use ollie_agent::backends::{ApiKey, Endpoint, OpenAi};
use ollie_agent::{Backend, BackendError, Delta, Entry, History, Request, Sampling, StopReason};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                      connection: close\r\n\r\n\
                      data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A server for `localhost`; its certificate as PEM. Every request that gets
/// through TLS is told.
async fn server() -> (String, String, mpsc::UnboundedReceiver<String>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or(0);
            request.truncate(length);
            tell.send(String::from_utf8(request).unwrap()).ok();
            stream.write_all(ANSWER.as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
    });
    (
        format!("https://localhost:{port}/v1"),
        made.cert.pem(),
        told,
    )
}

async fn ask(endpoint: &Endpoint) -> Result<Vec<Delta>, BackendError> {
    let backend = OpenAi::new("it", endpoint).unwrap();
    let entry = Entry::User { text: "Hi".into() };
    let history = History::from_entries([entry]).unwrap();
    let stream = backend
        .stream(Request {
            model: "m",
            system: "",
            history: &history,
            tools: &[],
            sampling: &Sampling::default(),
        })
        .await?;
    let all: Vec<_> = stream.collect().await;
    all.into_iter().collect()
}

#[tokio::test]
async fn an_unknown_authority_gets_no_request_and_a_named_one_does() {
    let (url, certificate, mut told) = server().await;
    let mut endpoint = Endpoint::new(url, Some(ApiKey::new("sk-secret").unwrap()));
    let Err(BackendError::Unreachable { message }) = ask(&endpoint).await else {
        panic!("a stranger was trusted");
    };
    assert!(message.contains("certificate"), "{message}");

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, certificate).unwrap();
    endpoint.ca_file = Some(file);
    let deltas = ask(&endpoint).await.unwrap();
    assert_eq!(deltas, [Delta::Stop(StopReason::End)]);
    let request = told.recv().await.unwrap();
    assert!(
        request.contains("authorization: Bearer sk-secret\r\n"),
        "{request}"
    );
    assert!(told.try_recv().is_err(), "one request came through");
}

#[test]
fn a_file_without_certificates_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    for (text, says) in [
        ("no certificate", "BEGIN CERTIFICATE"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "holds no certificate",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut endpoint = Endpoint::new(OpenAi::URL, None);
        endpoint.ca_file = Some(file.clone());
        let error = OpenAi::new("it", &endpoint).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
