use serde_json::Value;

/// A record of the ledger, as it lies in the file.
#[derive(Clone, Debug)]
pub struct Record {
    value: Value,
    line: String,
}

impl Record {
    /// `None` for a line that is no record.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8(line.to_vec()).ok()?;
        let value: Value = serde_json::from_str(&line).ok()?;
        value.get("seq")?.as_u64()?;
        Some(Self { value, line })
    }

    pub fn line(&self) -> &str {
        &self.line
    }

    pub fn seq(&self) -> u64 {
        self.value.get("seq").and_then(Value::as_u64).unwrap_or(0)
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// A member that is text, or nothing.
    pub fn text(&self, key: &str) -> &str {
        self.value.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("type")
    }

    pub fn number(&self, key: &str) -> Option<i64> {
        self.value.get(key).and_then(Value::as_i64)
    }

    /// What the ledger writes for its own sake.
    pub fn is_bookkeeping(&self) -> bool {
        matches!(self.kind(), "segment" | "checkpoint")
    }

    /// Every path that it is about.
    pub fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.kind() == "sandbox_denied" && matches!(self.text("kind"), "read" | "write") {
            found.push(self.text("target").to_owned());
        }
        let mut add =
            |value: Option<&Value>| found.extend(value.and_then(Value::as_str).map(str::to_owned));
        add(self.value.get("workspace"));
        for key in ["file_path", "path", "notebook_path"] {
            add(self.value.pointer(&format!("/arguments/{key}")));
        }
        for permissions in
            [self.value.get("permissions"), self.value.pointer("/arguments/sandbox_permissions")]
                .into_iter()
                .flatten()
        {
            for kind in ["read", "write", "unix_sockets"] {
                for path in permissions.get(kind).and_then(Value::as_array).into_iter().flatten() {
                    add(Some(path));
                }
            }
        }
        for denial in self.value.get("evidence").and_then(Value::as_array).into_iter().flatten() {
            if denial.get("kind").is_some_and(|kind| kind == "read" || kind == "write") {
                add(denial.get("target"));
            }
        }
        found
    }

    /// Every host that it is about.
    pub fn hosts(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut add =
            |value: Option<&Value>| found.extend(value.and_then(Value::as_str).map(str::to_owned));
        add(self.value.get("host"));
        if self.text("kind") == "network" {
            add(self.value.get("target"));
        }
        for permissions in
            [self.value.get("permissions"), self.value.pointer("/arguments/sandbox_permissions")]
                .into_iter()
                .flatten()
        {
            for host in permissions.get("network").and_then(Value::as_array).into_iter().flatten() {
                add(Some(host));
            }
        }
        found
    }

    /// One line that says what happened, for people.
    pub fn summary(&self) -> String {
        let joined = |parts: &[&str]| {
            parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ")
        };
        let permissions = self.value.get("permissions").map(Value::to_string).unwrap_or_default();
        match self.kind() {
            "call_requested" => {
                let command = self.value.pointer("/arguments/command").and_then(Value::as_str);
                let arguments =
                    self.value.get("arguments").map(Value::to_string).unwrap_or_default();
                command.map_or(arguments, str::to_owned)
            }
            "decided" => joined(&[
                "by",
                self.text("by"),
                self.text("approver"),
                self.text("rule"),
                &permissions,
                self.text("reason"),
            ]),
            "escalation_requested" => joined(&[&permissions, self.text("justification")]),
            "granted" => joined(&[
                self.text("grant"),
                &permissions,
                "for the",
                self.text("scope"),
                "by",
                self.text("approver"),
            ]),
            "grant_used" => self.text("grant").to_owned(),
            "grant_ended" => joined(&[self.text("grant"), self.text("how")]),
            "sandbox_denied" => joined(&[
                self.text("kind"),
                self.text("target"),
                "evidence:",
                self.text("evidence"),
                self.text("note"),
            ]),
            "network_decided" => format!(
                "{}:{} {}",
                self.text("host"),
                self.number("port").unwrap_or(0),
                self.text("reason")
            ),
            "call_ended" => {
                let code =
                    self.number("exit_code").map(|code| code.to_string()).unwrap_or_default();
                joined(&[self.text("outcome"), &code, self.text("message")])
            }
            "session_started" => joined(&[
                "policy",
                self.text("policy"),
                "in",
                self.text("workspace"),
                "approver",
                self.text("approver"),
            ]),
            "session_ended" => self.text("reason").to_owned(),
            "not_enforced" => joined(&[self.text("what"), self.text("reason")]),
            "recovered" => {
                format!("a torn line of {} bytes was taken away", self.number("bytes").unwrap_or(0))
            }
            "verifier_restored" => {
                "ledger.pub had gone, and was written again from the secret key".to_owned()
            }
            "too_large" => format!(
                "a record {} of {} bytes was not kept",
                self.text("of"),
                self.number("bytes").unwrap_or(0)
            ),
            _ => String::new(),
        }
    }
}
