use super::args::Kind;
use super::{Answer, load, subject, variables};
use serde_json::json;
use std::ffi::OsStr;
use std::path::Path;
use stockade_policy::{Effective, SyscallPolicy, Variables, Verdict};
use stockade_sandbox::linux::{SyscallAnswer, explain_syscall};

/// Whether a policy allows something.
pub fn explain(
    asked: &OsStr,
    kind: Option<Kind>,
    policy: &OsStr,
    workspace: Option<&Path>,
) -> Result<Answer, String> {
    let effective = load(policy)?;
    let variables = variables(workspace)?;
    let is_syscall =
        |name: &str| matches!(explain_syscall(&SyscallPolicy::default(), name), Ok(Some(_)));
    let kind = kind.unwrap_or_else(|| subject::kind(asked, is_syscall));
    let told = match kind {
        Kind::Path => path(&effective, asked, &variables)?,
        Kind::Host => host(&effective, asked)?,
        Kind::Syscall => syscall(&effective, asked)?,
    };
    let policy = &effective.policy.name;
    let mut text = format!("{}, under the policy {policy}:\n", told.subject);
    let by_arguments = told.answer == Some(SyscallAnswer::ByArguments);
    told.verdicts.iter().for_each(|verdict| text.push_str(&line(verdict, by_arguments)));
    told.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    let mut json = json!({
        "policy": policy,
        "kind": match kind { Kind::Path => "path", Kind::Host => "host", Kind::Syscall => "syscall" },
        "subject": told.subject,
        "verdicts": told.verdicts,
        "notes": told.notes,
    });
    if let Some(answer) = told.answer {
        json["answer"] = match answer {
            SyscallAnswer::Allowed => "allowed",
            SyscallAnswer::Refused => "refused",
            SyscallAnswer::ByArguments => "by_arguments",
        }
        .into();
    }
    Ok(Answer::new(text, json))
}

struct Told {
    subject: String,
    verdicts: Vec<Verdict>,
    notes: Vec<String>,
    /// Of a system call: what the filter does.
    answer: Option<SyscallAnswer>,
}

fn line(verdict: &Verdict, by_arguments: bool) -> String {
    let allowed = match (by_arguments, verdict.allowed) {
        (true, _) => "allowed or refused by its arguments",
        (_, true) => "allowed",
        _ => "refused",
    };
    let by = match &verdict.by {
        Some(by) => format!("by {by}"),
        None => "since nothing in the policy names it".to_owned(),
    };
    let mut line = format!("  {:<8} {allowed}  {by}\n", verdict.action);
    if let Some(grant) = &verdict.grant {
        let what = if by_arguments { "all of it" } else { "it" };
        line.push_str(&format!("                    {grant} would allow {what}\n"));
    }
    line
}

fn path(effective: &Effective, asked: &OsStr, variables: &Variables) -> Result<Told, String> {
    let found = subject::path(asked, &variables.home)?;
    let verdicts = effective
        .explain_path(&found.path, &found.real, variables)
        .map_err(|error| error.to_string())?;
    let mut notes = Vec::new();
    if found.real != found.path {
        notes.push(format!("it leads to {}", found.real.display()));
    }
    let hidden = verdicts.iter().any(|verdict| {
        !verdict.allowed && verdict.by.as_ref().is_some_and(|by| by.key == "filesystem.hide")
    });
    if hidden {
        notes.push(
            "no grant shows what is hidden; a policy file can name a deeper path in it".to_owned(),
        );
    }
    let readable = verdicts.iter().any(|verdict| verdict.action == "read" && verdict.allowed);
    if !effective.policy.is_full_access() && !readable && !hidden {
        notes.extend(of_the_cell(&found.path, variables));
    }
    Ok(Told { subject: found.path.display().to_string(), verdicts, notes, answer: None })
}

/// What stands at a path inside although no policy names it.
fn of_the_cell(path: &Path, variables: &Variables) -> Option<String> {
    let private = ["/tmp", "/var/tmp", "/dev/shm"].map(Path::new);
    let private = private.into_iter().chain([variables.home.as_path()]);
    if let Some(folder) = private.into_iter().find(|folder| path.starts_with(folder)) {
        return Some(format!(
            "inside, {} is a folder of the session's own: writable, empty at first, gone with the session",
            folder.display()
        ));
    }
    let own =
        [("/dev", "a small one with the usual devices"), ("/proc", "of the call's own processes")];
    own.into_iter()
        .find(|(folder, _)| path.starts_with(folder))
        .map(|(folder, what)| format!("inside, {folder} is the cell's own: {what}"))
}

fn host(effective: &Effective, asked: &OsStr) -> Result<Told, String> {
    let asked = asked.to_str().ok_or("a host's name is text")?;
    let verdict = effective.explain_host(asked).map_err(|error| {
        format!("{error}; --as path or --as syscall says that something else is meant")
    })?;
    Ok(Told { subject: asked.to_owned(), verdicts: vec![verdict], notes: Vec::new(), answer: None })
}

fn syscall(effective: &Effective, asked: &OsStr) -> Result<Told, String> {
    let name = asked.to_str().ok_or("a system call's name is text")?;
    let verdict = explain_syscall(&effective.policy.syscalls, name)
        .map_err(|refusal| refusal.to_string())?
        .ok_or_else(|| format!("there is no system call and no group of them named {name:?}"))?;
    let mut names = vec![name, "all"];
    names.extend(&verdict.groups);
    let by = effective.syscalls_line(&names);
    let mut notes = Vec::new();
    if by.is_none() {
        notes.push(match verdict.groups.as_slice() {
            [] => "the filter has no rule for it, and lets it through".to_owned(),
            groups => format!("the filter's own rules decide: {}", groups.join(", ")),
        });
    }
    let hides = !effective.policy.filesystem.hide.is_empty();
    if let Some(instead) = verdict.where_names_are_hidden.filter(|_| hides) {
        notes.push(format!(
            "in a session that hides something in a folder which it shows, {instead}"
        ));
    }
    let answer = verdict.answer;
    let whole = answer == SyscallAnswer::Allowed;
    notes.extend(verdict.arguments);
    if verdict.not_implemented {
        notes.push(
            "what is refused is answered with ENOSYS: programs fall back to something older"
                .to_owned(),
        );
    }
    let refused_by_name = by.as_ref().is_some_and(|by| by.key == "syscalls.deny");
    if !whole && !verdict.works_if_allowed {
        notes
            .push("no grant makes it work: it takes capabilities, which no command has".to_owned());
    }
    let grant = (!whole && !refused_by_name && verdict.works_if_allowed)
        .then(|| verdict.groups.first().copied().unwrap_or(name))
        .map(|group| format!("[syscalls] allow = [{group:?}] in a policy file"));
    let allowed = answer != SyscallAnswer::Refused;
    let verdict = Verdict { action: "call".to_owned(), allowed, by, grant };
    Ok(Told { subject: name.to_owned(), verdicts: vec![verdict], notes, answer: Some(answer) })
}
