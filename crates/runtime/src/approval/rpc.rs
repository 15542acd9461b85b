use super::{ApprovalRequest, Approver, ApproverKind, Decision, wire};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::{CallToken, HookError, ToolRuntime};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;
use stockade_rules::json::unique;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

/// The longest message, in bytes.
const MESSAGE_MAX: u64 = 1 << 20;

/// Asks a client by JSON-RPC 2.0, one message a line: `permission/request` with the request, to be answered with a decision;
/// `permission/settled`, a notification, when no answer is wanted any more; `permission/ignored`, when an answer came to no open question. The client may ask too: `grants/list`, and
/// `grants/revoke {"id": …}`. A client that is gone, or does not answer in time, says no.
pub struct RpcApprover {
    to_client: mpsc::UnboundedSender<String>,
    waiting: Arc<Slots>,
    /// The open question of a call. By its token: two calls may look alike.
    asked: Mutex<HashMap<CallToken, u64>>,
    next: AtomicU64,
    timeout: Duration,
    runtime: Arc<OnceLock<ToolRuntime>>,
}

impl RpcApprover {
    /// A client at the other end of this connection. Must be called inside a tokio runtime.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        mut writer: impl AsyncWrite + Send + Unpin + 'static,
        timeout: Duration,
    ) -> Self {
        let (to_client, mut lines) = mpsc::unbounded_channel::<String>();
        let waiting: Arc<Slots> = Arc::default();
        let runtime: Arc<OnceLock<ToolRuntime>> = Arc::default();
        let gone = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(mut line) = lines.recv().await {
                line.push('\n');
                if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err()
                {
                    // Who cannot be asked does not answer.
                    gone.close();
                    break;
                }
            }
        });
        let (slots, answers, known) =
            (Arc::clone(&waiting), to_client.clone(), Arc::clone(&runtime));
        tokio::spawn(async move {
            let mut reader = BufReader::new(reader);
            loop {
                let mut line = Vec::new();
                match (&mut reader).take(MESSAGE_MAX).read_until(b'\n', &mut line).await {
                    Ok(1..) if line.ends_with(b"\n") => {}
                    _ => break,
                }
                match unique(&line) {
                    Ok(message) => received(message, &slots, &answers, known.get()),
                    // Whom it was to answer cannot be told, so it is nobody's yes.
                    Err(error) => {
                        slots.deny_all();
                        refuse(&answers, &Value::Null, -32700, &error.to_string());
                    }
                }
            }
            // Nobody answers any more: every slot is dropped, which is a no, and so is each that is asked for later.
            slots.close();
        });
        let asked = Mutex::default();
        Self { to_client, waiting, asked, next: AtomicU64::new(1), timeout, runtime }
    }

    /// Lets the client list and revoke this runtime's grants.
    pub fn attach(&self, runtime: ToolRuntime) {
        // The first one counts.
        let _ = self.runtime.set(runtime);
    }
}

/// The questions that wait for an answer, by their ids.
#[derive(Default)]
struct Slots(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    open: HashMap<u64, oneshot::Sender<Value>>,
    /// The client has hung up.
    closed: bool,
}

impl Slots {
    /// A place for the answer to this question; `None`: nobody is there to give one.
    fn open(&self, id: u64) -> Option<oneshot::Receiver<Value>> {
        let mut waiting = self.lock();
        if waiting.closed {
            return None;
        }
        let (slot, answer) = oneshot::channel();
        waiting.open.insert(id, slot);
        Some(answer)
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Value>> {
        self.lock().open.remove(&id)
    }

    /// Drops every slot, which is a no.
    fn deny_all(&self) {
        self.lock().open.clear();
    }

    /// The same, for what comes later too.
    fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.open.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse(answers: &mpsc::UnboundedSender<String>, id: &Value, code: i32, message: &str) {
    let error = json!({"code": code, "message": message});
    let _ = answers.send(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
}

/// The result of a response that is one by JSON-RPC 2.0, with nothing besides; anything else is no yes.
fn result_of(message: &Map<String, Value>) -> Option<Value> {
    let known = message.keys().all(|key| matches!(key.as_str(), "jsonrpc" | "id" | "result"));
    let is_response = message.get("jsonrpc").and_then(Value::as_str) == Some("2.0");
    message.get("result").filter(|_| known && is_response).cloned()
}

fn received(
    message: Value,
    slots: &Slots,
    answers: &mpsc::UnboundedSender<String>,
    runtime: Option<&ToolRuntime>,
) {
    let Value::Object(message) = message else {
        slots.deny_all();
        return refuse(answers, &Value::Null, -32600, "a message is one object");
    };
    if !message.contains_key("method") {
        let written = message.get("id").unwrap_or(&Value::Null);
        match written.as_u64().and_then(|id| slots.take(id)) {
            // An error is an answer as well: not a yes. A call that is gone wants none.
            Some(slot) => {
                let _ = slot.send(result_of(&message).unwrap_or(Value::Null));
            }
            // The question goes on waiting for its own, until its time is up.
            None => {
                tracing::warn!(id = %written, "an answer came to no question that is open: it counts for none");
                let note = json!({"jsonrpc": "2.0", "method": "permission/ignored", "params": {
                    "id": written, "reason": "no open question has this id: the answer counts for none"
                }});
                let _ = answers.send(note.to_string());
            }
        }
        return;
    }
    let id = message.get("id").cloned();
    let method = message.get("method").and_then(Value::as_str);
    let is_request = message.get("jsonrpc").and_then(Value::as_str) == Some("2.0")
        && !message.contains_key("result")
        && !message.contains_key("error");
    let (Some(method), true) = (method, is_request) else {
        // It may have been meant as an answer to the question of this id: then it is a no.
        if let Some(id) = id.as_ref().and_then(Value::as_u64) {
            slots.take(id);
        }
        let id = id.unwrap_or(Value::Null);
        return refuse(answers, &id, -32600, "this is no request by JSON-RPC 2.0");
    };
    let Some(id) = id else { return };
    let result = match (method, runtime) {
        ("grants/list", Some(runtime)) => json!({ "grants": runtime.grants() }),
        ("grants/revoke", Some(runtime)) => {
            let grant = message.get("params").and_then(|params| params.get("id"));
            let grant = grant.and_then(Value::as_str).unwrap_or_default();
            json!({ "revoked": runtime.revoke_grant(grant) })
        }
        _ => return refuse(answers, &id, -32601, &format!("there is no method {method:?}")),
    };
    let _ = answers.send(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
}

#[async_trait]
impl Approver for RpcApprover {
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let gone = || Decision::Deny {
            reason: "the approval client has closed its connection: nobody is left to ask".into(),
        };
        let Some(answer) = self.waiting.open(id) else { return Ok(gone()) };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(request.call.token(), id);
        let question = json!({"jsonrpc": "2.0", "id": id, "method": "permission/request", "params": wire::describe(request)});
        if self.to_client.send(question.to_string()).is_err() {
            // Its slot is dropped, which is how a client that is gone answers.
            self.waiting.take(id);
        }
        let answer = tokio::time::timeout(self.timeout, answer).await;
        self.waiting.take(id);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.call.token());
        Ok(match answer {
            Ok(Ok(answer)) => wire::decision(&answer, request, "the approval client"),
            Ok(Err(_)) if self.waiting.lock().closed => gone(),
            Ok(Err(_)) => Decision::Deny {
                reason: "the approval client sent what is no message of JSON-RPC 2.0, which answers nothing".into(),
            },
            Err(_) => Decision::Deny {
                reason: format!(
                    "the approval client gave no answer within {} s",
                    self.timeout.as_secs()
                ),
            },
        })
    }

    fn kind(&self) -> ApproverKind {
        ApproverKind::JsonRpc
    }

    fn settled(&self, request: &ApprovalRequest, by: &str) {
        let id =
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.call.token());
        if let Some(id) = id {
            self.waiting.take(id);
            let note = json!({"jsonrpc": "2.0", "method": "permission/settled", "params": {"id": id, "by": by}});
            let _ = self.to_client.send(note.to_string());
        }
    }
}
