use crate::command::CommandPattern;
use crate::path::PathRule;
use std::path::PathBuf;

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call needs no question.
    Allow,
    /// The call must be approved.
    Ask,
    /// The call must not run.
    Deny,
}

/// A rule: `Tool` or `Tool(pattern)`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As written.
    pub text: String,
    /// What it does.
    pub effect: Effect,
    /// The file it stands in.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
    pub(crate) tool: String,
    pub(crate) pattern: Pattern,
}

#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Every call of the tool.
    Any,
    Command(CommandPattern),
    Path(PathRule),
    /// A host, `*.` before it for those below.
    Host(String),
    /// A pattern of a tool whose patterns are not known here: it may mean any call, so it never allows one.
    Unknown,
}

/// How paths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `/x` is absolute.
    Own,
    /// `//x` is absolute, `/x` starts at the project, as in an agent host's settings file.
    Settings,
}

/// The file tools whose calls a rule for this tool is about.
pub(crate) fn covers(rule_tool: &str, tool: &str) -> bool {
    if let Some(prefix) = rule_tool.strip_suffix('*') {
        return tool.starts_with(prefix);
    }
    match rule_tool {
        "Read" => matches!(tool, "Read" | "Glob" | "Grep" | "LS" | "NotebookRead"),
        "Edit" => matches!(tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit"),
        _ => {
            rule_tool == tool
                || (rule_tool.starts_with("mcp__")
                    && tool.strip_prefix(rule_tool).is_some_and(|rest| rest.starts_with("__")))
        }
    }
}

/// The tools whose patterns are paths.
const FILE_TOOLS: [&str; 9] =
    ["Read", "Write", "Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "NotebookRead"];

/// Reads a rule's tool and pattern.
pub(crate) fn parse(text: &str, style: Style) -> Result<(String, Pattern), String> {
    let trimmed = text.trim();
    let (tool, pattern) = match trimmed.split_once('(') {
        None => (trimmed, None),
        Some((tool, rest)) => {
            let pattern = rest
                .strip_suffix(')')
                .ok_or_else(|| format!("{text:?}: the closing ')' is missing at the end"))?;
            (tool, Some(pattern))
        }
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if tool.is_empty() || !tool.trim_end_matches('*').chars().all(fits) {
        return Err(format!("{text:?}: a rule is a tool's name, or Tool(pattern)"));
    }
    if tool.trim_end_matches('*').is_empty() {
        return Err(format!("{text:?}: name a tool; a rule for all tools at once is `default`"));
    }
    let pattern = match pattern.map(str::trim) {
        None => Pattern::Any,
        // All files of the workspace, which a shell line can reach as well; the tool alone is meant without a pattern.
        Some("*" | "**") if FILE_TOOLS.contains(&tool) => {
            Pattern::Path(PathRule::parse("**", style)?)
        }
        Some("*" | "**") => Pattern::Any,
        Some("") => {
            return Err(format!(
                "{text:?}: the pattern is empty; leave the brackets out to mean every call"
            ));
        }
        Some(pattern) => match tool {
            "Bash" => Pattern::Command(CommandPattern::parse(pattern)?),
            tool if FILE_TOOLS.contains(&tool) => Pattern::Path(PathRule::parse(pattern, style)?),
            "WebFetch" => match pattern.strip_prefix("domain:") {
                Some(host) if !host.is_empty() => Pattern::Host(host.to_ascii_lowercase()),
                _ => {
                    return Err(format!(
                        "{text:?}: a pattern for WebFetch has the form domain:HOST"
                    ));
                }
            },
            _ if style == Style::Settings => Pattern::Unknown,
            _ => {
                return Err(format!(
                    "{text:?}: {tool} takes no pattern; Bash, WebFetch and the file tools do"
                ));
            }
        },
    };
    Ok((tool.to_owned(), pattern))
}

/// Whether a host is meant by a pattern.
pub(crate) fn host_matches(pattern: &str, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    match pattern.strip_prefix("*.") {
        Some(base) => {
            host.strip_suffix(base).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        }
        None => host == pattern,
    }
}
