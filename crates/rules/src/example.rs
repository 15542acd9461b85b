use crate::{RuleScope, RuleSet, Verdict};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What a rule file says that its rules do: `call = "Bash(git push)"`, `expect = "ask"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// As written.
    pub call: String,
    /// What is expected; `None`: no opinion.
    pub expect: Option<Verdict>,
    /// The file.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
    tool: String,
    arguments: Value,
}

/// How an example came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExampleResult {
    /// The example's call.
    pub call: String,
    /// The line.
    pub line: usize,
    /// What was expected: `allow`, `ask`, `deny`, `confine`.
    pub expected: &'static str,
    /// What the rules say.
    pub found: &'static str,
    /// The rule or the reason.
    pub why: String,
}

impl ExampleResult {
    /// Whether it came out as it should.
    pub fn is_good(&self) -> bool {
        self.expected == self.found
    }
}

fn name(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Allow) => "allow",
        Some(Verdict::Ask) => "ask",
        Some(Verdict::Deny) => "deny",
        None => "confine",
    }
}

impl Example {
    pub(crate) fn new(
        call: &str,
        expect: Option<Verdict>,
        file: &Path,
        line: usize,
    ) -> Result<Self, String> {
        let wrong = || format!("{call:?}: a call is written Tool(argument)");
        let (tool, rest) = call.split_once('(').ok_or_else(wrong)?;
        let argument = rest.strip_suffix(')').ok_or_else(wrong)?;
        let key = match tool {
            "Bash" => "command",
            "Glob" | "Grep" => "path",
            "WebFetch" => "url",
            _ => "file_path",
        };
        Ok(Self {
            call: call.to_owned(),
            expect,
            file: file.to_owned(),
            line,
            tool: tool.to_owned(),
            arguments: json!({ key: argument }),
        })
    }

    /// Asks the rules.
    pub fn run(&self, rules: &RuleSet, scope: &RuleScope) -> ExampleResult {
        let opinion = rules.judge(&self.tool, &self.arguments, scope);
        let why = match &opinion {
            Some(opinion) => opinion.rule.clone().unwrap_or_else(|| opinion.reason.clone()),
            None => "no rule is about it".to_owned(),
        };
        ExampleResult {
            call: self.call.clone(),
            line: self.line,
            expected: name(self.expect),
            found: name(opinion.map(|opinion| opinion.verdict)),
            why,
        }
    }
}
