//! Why a request failed, as a Kubernetes `Status`.

use serde_json::{Value, json};

/// The machine-readable reason of a `Status`. Clients decide by it and by the code, never by the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// 400.
    BadRequest,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 409: a create found the object.
    AlreadyExists,
    /// 409: another write came first.
    Conflict,
    /// 410: the revision or the continue token is too old.
    Expired,
    /// 415.
    UnsupportedMediaType,
    /// 422.
    Invalid,
    /// 500.
    InternalError,
    /// 504: the revision lies in the future (cause `ResourceVersionTooLarge`).
    TooLargeVersion,
}

impl Reason {
    /// The HTTP code that goes with it.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Expired => 410,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::InternalError => 500,
            Self::TooLargeVersion => 504,
        }
    }

    /// Its text in a `Status`.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::Invalid => "Invalid",
            Self::InternalError => "InternalError",
            Self::TooLargeVersion => "Timeout",
        }
    }
}

/// A failed request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message} ({})", .reason.text())]
pub struct Failure {
    /// Why.
    pub reason: Reason,
    /// In words.
    pub message: String,
}

impl Failure {
    /// A failure for `reason`, told in `message`.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// As the `Status` object that clients get.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let details = match self.reason {
            Reason::TooLargeVersion => json!({
                "retryAfterSeconds": 1,
                "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            }),
            Reason::BadRequest
            | Reason::Forbidden
            | Reason::NotFound
            | Reason::MethodNotAllowed
            | Reason::AlreadyExists
            | Reason::Conflict
            | Reason::Expired
            | Reason::UnsupportedMediaType
            | Reason::Invalid
            | Reason::InternalError => json!({}),
        };
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason.text(),
            "details": details,
            "code": self.reason.code(),
        })
    }
}
