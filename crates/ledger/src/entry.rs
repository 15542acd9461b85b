use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_types::{CallId, Denial, Evidence, SessionId};

/// One record, as it is handed to the ledger, which adds time, number and hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The session that it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    /// The turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<u64>,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call: Option<CallId>,
    /// The call's tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What is to be had, in the shape of a call's `sandbox_permissions` (spec 10.4).
pub type Permissions = Value;

/// The types of records, as they stand in them.
pub const KINDS: [&str; 17] = [
    "segment",
    "checkpoint",
    "recovered",
    "verifier_restored",
    "session_started",
    "not_enforced",
    "session_ended",
    "call_requested",
    "escalation_requested",
    "decided",
    "granted",
    "grant_used",
    "grant_ended",
    "sandbox_denied",
    "network_decided",
    "call_ended",
    "too_large",
];

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A segment of the ledger begins.
    Segment {
        /// The version of the lines' form.
        version: u32,
        /// The key that signs its checkpoints.
        key: String,
    },
    /// Everything before this line is signed.
    Checkpoint {
        /// The signed note.
        note: String,
    },
    /// The verifier key had gone from beside the ledger, and was written again from the secret key.
    VerifierRestored {
        /// The verifier key, as it stands there again.
        key: String,
    },
    /// The last line was torn by a writer that died, and was taken away.
    Recovered {
        /// How many bytes it had.
        bytes: u64,
        /// Their SHA-256.
        sha256: String,
    },
    /// A session begins.
    SessionStarted {
        /// Its policy's name.
        policy: String,
        /// Its policy's digest.
        policy_digest: String,
        /// Its workspace.
        workspace: String,
        /// Its ceiling: a policy's name.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        ceiling: Option<String>,
        /// Who answers questions of permission.
        approver: ApproverKind,
        /// The user id that runs it.
        uid: u32,
        /// Its process.
        pid: u32,
        /// The version of Stockade.
        version: String,
        /// The ids under which others know it.
        #[serde(skip_serializing_if = "Value::is_null", default)]
        correlation: Value,
    },
    /// Something that the policy asks for is not enforced here.
    NotEnforced {
        /// Which layer or key.
        what: String,
        /// Why not.
        reason: String,
    },
    /// A session ends.
    SessionEnded {
        /// How many calls it had.
        calls: u64,
        /// How it ended.
        reason: String,
    },
    /// The model asks for a call.
    CallRequested {
        /// The arguments, as the model gave them.
        arguments: Value,
        /// The SHA-256 of the tool's name, a zero byte and the arguments' JSON as it stands here: secrets are replaced before, since a
        /// digest of the very bytes would tell a short one to whoever tries them all.
        arguments_sha256: String,
    },
    /// The call wants more than its policy allows.
    EscalationRequested {
        /// What it wants.
        permissions: Permissions,
        /// Why it says it needs that.
        justification: String,
        /// What the sandbox refused before, on which the request can stand.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        evidence: Vec<Denial>,
    },
    /// Somebody or something decided on the call.
    Decided {
        /// The decision.
        decision: Verdict,
        /// Who decided.
        by: DecidedBy,
        /// The kind of approver, where one decided.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        approver: Option<ApproverKind>,
        /// The rule, hook or guard.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        rule: String,
        /// Why.
        reason: String,
        /// The digest of the policy that the call would have run under.
        policy_digest: String,
        /// What was asked for beyond the policy.
        #[serde(skip_serializing_if = "Value::is_null", default)]
        permissions: Permissions,
    },
    /// One permission more than the policy.
    Granted {
        /// The grant's id.
        grant: String,
        /// What it allows.
        permissions: Permissions,
        /// For how long.
        scope: GrantScope,
        /// The digest of the policy that it adds to.
        policy_digest: String,
        /// The call that it was given for, by the digest that its request has in the ledger.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        call_digest: String,
        /// When it ends, where it does by itself: RFC 3339.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        expires: Option<String>,
        /// The kind of approver that gave it.
        approver: ApproverKind,
    },
    /// A call runs under a grant.
    GrantUsed {
        /// The grant's id.
        grant: String,
        /// The digest of the policy that the call runs under.
        policy_digest: String,
    },
    /// A grant ends.
    GrantEnded {
        /// The grant's id.
        grant: String,
        /// How.
        how: GrantEnd,
    },
    /// The sandbox refused something to a running command, or to a file tool.
    SandboxDenied {
        /// What.
        #[serde(flatten)]
        denial: Denial,
        /// The same as for other decisions, so that one filter finds both.
        decision: Verdict,
    },
    /// The egress proxy decided on a connection.
    NetworkDecided {
        /// The decision.
        decision: Verdict,
        /// The host, as it was asked for.
        host: String,
        /// The port.
        port: u16,
        /// The pattern that decided.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        rule: String,
        /// Why.
        reason: String,
        /// How sure it is.
        evidence: Evidence,
    },
    /// A call ended.
    CallEnded {
        /// `exited`, `signaled`, `refused`, …; `ok` or `error` where no command ran.
        outcome: String,
        /// Whether the model was told of a failure.
        is_error: bool,
        /// The command's exit code.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        exit_code: Option<i32>,
        /// The digest of the policy that it ran under; empty when it did not run.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        policy_digest: String,
        /// From the request to the end, in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        took_ms: Option<u64>,
        /// What it says, for a failure: the error's text, cut.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        message: String,
    },
    /// A record was too large to be kept.
    TooLarge {
        /// The type of the real record.
        of: String,
        /// How many bytes it had.
        bytes: u64,
        /// Their SHA-256.
        sha256: String,
    },
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A pre-execute or permission hook.
    Hook,
    /// A guard.
    Guard,
    /// A permission rule.
    Rule,
    /// The tool itself.
    Tool,
    /// The approver.
    Approver,
    /// The rules of escalation: not wider, above the ceiling, no evidence.
    Escalation,
    /// A grant of the session that is still alive.
    Grant,
    /// Nothing objected: the policy alone confines the call.
    Policy,
}

/// The kinds of approver (spec 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproverKind {
    /// Nobody: every question is answered with no.
    Deny,
    /// The person at the terminal.
    Terminal,
    /// A client over JSON-RPC.
    JsonRpc,
    /// A program.
    Program,
    /// The ceiling.
    Ceiling,
    /// A permission hook.
    Hook,
    /// A library user's own.
    Custom,
}

/// For how long a grant holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// For the one call.
    Call,
    /// For the session.
    Session,
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantEnd {
    /// It was for one call, which has run.
    Used,
    /// Its time was up.
    Expired,
    /// It was taken back.
    Revoked,
    /// Its session ended.
    SessionEnded,
}

impl Entry {
    /// An entry about no session.
    pub fn of(event: Event) -> Self {
        Self { session: None, turn: None, call: None, tool: None, event }
    }

    /// What takes the place of an entry that is too large.
    pub(crate) fn shortened(&self, bytes: u64, sha256: &str) -> Self {
        let of = serde_json::to_value(&self.event)
            .ok()
            .and_then(|event| event.get("type")?.as_str().map(str::to_owned))
            .unwrap_or_default();
        let cut = |text: &String| text.chars().take(256).collect();
        Self {
            session: self.session.clone(),
            turn: self.turn,
            call: self.call.as_ref().map(|id| CallId(cut(&id.0))),
            tool: self.tool.as_ref().map(cut),
            event: Event::TooLarge { of, bytes, sha256: sha256.to_owned() },
        }
    }
}
