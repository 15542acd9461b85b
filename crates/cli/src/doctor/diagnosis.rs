use serde::Serialize;
use std::fmt::{self, Write};
use stockade_types::Layer;

/// What this machine has, and what that is enough for (spec 10.3).
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The kernel's release and architecture.
    pub kernel: String,
    /// What confinement is made of here.
    pub tier: String,
    /// Every layer, in the order of [`Layer::ALL`].
    pub layers: Vec<LayerFinding>,
    /// Every limit of which a kernel has more than one way to hold it.
    pub limits: Vec<LimitFinding>,
    /// Every shipped policy.
    pub policies: Vec<PolicyFinding>,
}

/// Whether one layer can be had here.
#[derive(Clone, Debug, Serialize)]
pub struct LayerFinding {
    /// Which.
    pub layer: Layer,
    /// Whether it is there.
    pub there: bool,
    /// What exactly is there (`abi 7`), or what is missing.
    pub detail: String,
    /// How to get it; empty where it is there.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// By what a limit is held here.
#[derive(Clone, Debug, Serialize)]
pub struct LimitFinding {
    /// Which.
    pub limit: &'static str,
    /// By what, and what that does not do.
    pub held_by: &'static str,
}

/// Whether one policy can be enforced here.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyFinding {
    /// Which.
    pub policy: String,
    /// Whether it can be enforced whole.
    pub enforceable: bool,
    /// What it asks for and cannot have.
    pub missing: Vec<Missing>,
}

/// One thing that a policy asks for and cannot have here.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    /// A layer's name, or the step at which a trial failed.
    pub what: String,
    /// Why, and how to get it.
    pub why: String,
}

impl Missing {
    /// As it is told of every policy that lacks the same.
    fn reason(&self, policy: &str) -> String {
        let why = self.why.replace(&format!("the policy {policy} "), "the policy ");
        format!("{}: {why}", self.what)
    }
}

/// The policy by which a machine is judged: the one that `run` and `exec` use by default.
pub const JUDGED_BY: &str = "workspace-write";

impl Diagnosis {
    /// Whether [`JUDGED_BY`] can be enforced whole.
    pub fn is_sound(&self) -> bool {
        self.policies.iter().any(|finding| finding.policy == JUDGED_BY && finding.enforceable)
    }
}

/// The table for people.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}", self.kernel)?;
        writeln!(f, "confines by {}\n", self.tier)?;
        let mut rows = vec![["layer".to_owned(), "here".to_owned(), String::new()]];
        for finding in &self.layers {
            let here = if finding.there { "yes" } else { "MISSING" };
            let mut detail = finding.detail.clone();
            if !finding.remedy.is_empty() {
                let _ = write!(detail, "; {}", finding.remedy);
            }
            rows.push([finding.layer.name().to_owned(), here.to_owned(), detail]);
        }
        write_table(f, &rows)?;
        writeln!(f)?;
        let mut rows = vec![["limit".to_owned(), "held by".to_owned(), String::new()]];
        for LimitFinding { limit, held_by } in &self.limits {
            rows.push([(*limit).to_owned(), (*held_by).to_owned(), String::new()]);
        }
        write_table(f, &rows)?;
        writeln!(f)?;
        let mut rows = vec![["policy".to_owned(), "enforceable".to_owned(), String::new()]];
        // Most policies lack the same: each reason is told once, below, and the policies refer to it.
        let mut reasons: Vec<String> = Vec::new();
        for finding in &self.policies {
            let answer = if finding.enforceable { "yes" } else { "NO" };
            let missing: Vec<String> = finding
                .missing
                .iter()
                .map(|missing| {
                    let reason = missing.reason(&finding.policy);
                    let known = reasons.iter().position(|known| *known == reason);
                    let number = known.unwrap_or_else(|| {
                        reasons.push(reason);
                        reasons.len() - 1
                    });
                    format!("[{}]", number + 1)
                })
                .collect();
            rows.push([finding.policy.clone(), answer.to_owned(), missing.join(" ")]);
        }
        write_table(f, &rows)?;
        for (number, reason) in (1..).zip(&reasons) {
            write!(f, "\n[{number}] {reason}\n")?;
        }
        Ok(())
    }
}

fn write_table(f: &mut fmt::Formatter<'_>, rows: &[[String; 3]]) -> fmt::Result {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let (first, second) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
    for [name, here, detail] in rows {
        let line = format!("{name:first$}  {here:second$}  {detail}");
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(enforceable: bool) -> Diagnosis {
        Diagnosis {
            kernel: "6.18.0 x86_64".into(),
            tier: "namespaces".into(),
            layers: vec![
                LayerFinding {
                    layer: Layer::Landlock,
                    there: true,
                    detail: "abi 7".into(),
                    remedy: String::new(),
                },
                LayerFinding {
                    layer: Layer::UserNamespace,
                    there: enforceable,
                    detail: "not permitted".into(),
                    remedy: "set kernel.unprivileged_userns_clone=1".into(),
                },
            ],
            limits: vec![LimitFinding { limit: "pids", held_by: "pid_max" }],
            policies: vec![
                PolicyFinding {
                    policy: "danger-full-access".into(),
                    enforceable: true,
                    missing: Vec::new(),
                },
                PolicyFinding {
                    policy: JUDGED_BY.into(),
                    enforceable,
                    missing: vec![Missing {
                        what: "user_namespace".into(),
                        why: "not permitted".into(),
                    }],
                },
            ],
        }
    }

    // spec 10.3
    #[test]
    fn only_workspace_write_decides_whether_the_machine_will_do() {
        assert!(diagnosis(true).is_sound());
        assert!(!diagnosis(false).is_sound());
        assert!(!Diagnosis { policies: Vec::new(), ..diagnosis(true) }.is_sound());
    }

    #[test]
    fn the_table_names_what_is_missing_and_how_to_get_it() {
        assert_eq!(
            diagnosis(false).to_string(),
            "\
kernel 6.18.0 x86_64
confines by namespaces

layer           here
landlock        yes      abi 7
user_namespace  MISSING  not permitted; set kernel.unprivileged_userns_clone=1

limit  held by
pids   pid_max

policy              enforceable
danger-full-access  yes
workspace-write     NO           [1]

[1] user_namespace: not permitted
"
        );
    }

    #[test]
    fn what_several_policies_lack_is_told_once() {
        let mut diagnosis = diagnosis(false);
        for name in ["read-only", "ci"] {
            let why = format!("the policy {name} requires landlock; get it");
            let missing = vec![
                Missing { what: "user_namespace".into(), why: "not permitted".into() },
                Missing { what: "host".into(), why },
            ];
            diagnosis.policies.push(PolicyFinding {
                policy: name.into(),
                enforceable: false,
                missing,
            });
        }
        let text = diagnosis.to_string();
        let (_, policies) = text.split_once("enforceable\n").unwrap();
        assert_eq!(policies.matches("not permitted").count(), 1, "{text}");
        assert_eq!(policies.matches("the policy requires landlock; get it").count(), 1, "{text}");
        assert_eq!(policies.matches("[1] [2]\n").count(), 2, "{text}");
    }
}
