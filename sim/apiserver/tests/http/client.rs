//! A client that opens one connection a request.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::VecDeque;
use tombolo_apiserver::ApiServer;

/// Its user agent.
pub const WHO: &str = "west/gw-a gateway";

pub struct Client(pub ApiServer);

impl Client {
    async fn send(&self, method: &str, path: &str, content_type: &str, body: Bytes) -> http::Response<Incoming> {
        let (near, far) = tokio::io::duplex(64 << 10);
        tokio::spawn(self.0.clone().serve_connection(far));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "api")
            .header("user-agent", WHO)
            .header("content-type", content_type)
            .body(Full::new(body))
            .unwrap();
        sender.send_request(request).await.unwrap()
    }

    pub async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.typed(method, path, "application/json", body).await
    }

    pub async fn typed(&self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let response = self.send(method, path, content_type, body).await;
        assert!(!response.headers().contains_key("date"), "a clock leaks");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, &Value::Null).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("POST", path, body).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("PUT", path, body).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.call("DELETE", path, &Value::Null).await
    }

    pub async fn watch(&self, path: &str) -> Watch {
        let response = self.send("GET", path, "", Bytes::new()).await;
        assert_eq!(response.status(), 200);
        Watch { body: response.into_body(), buffer: Vec::new(), lines: VecDeque::new() }
    }
}

pub struct Watch {
    body: Incoming,
    buffer: Vec<u8>,
    lines: VecDeque<Value>,
}

impl Watch {
    /// The next event, or `None` at the end of the watch.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        while self.lines.is_empty() {
            let frame = self.body.frame().await?.ok()?;
            self.buffer.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                self.lines.push_back(serde_json::from_slice(&line).unwrap());
            }
        }
        let event = self.lines.pop_front()?;
        Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()))
    }

    /// The next event as `TYPE name`.
    pub async fn told(&mut self) -> Option<String> {
        let (told, object) = self.next().await?;
        Some(format!("{told} {}", object["metadata"]["name"].as_str().unwrap_or_default()))
    }
}
