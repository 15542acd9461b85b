use crate::Variables;
use crate::error::EntryError;
use crate::paths::{VARIABLES, is_plain, session, unknown_variable};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Checks a value of `set` without expanding it.
pub(crate) fn check(value: &str) -> Result<(), EntryError> {
    if value.contains('\0') {
        return Err(refuse(value, "a value cannot hold a NUL character".into()));
    }
    let home = Path::new("/");
    let variables =
        Variables { workspace: home.into(), home: home.into(), session: Some(home.into()) };
    expand(value, &variables).map(drop)
}

/// Replaces `$WORKSPACE` and `$HOME` anywhere, and a `~` that begins the value; `$$` is one `$`.
pub(super) fn expand(value: &str, variables: &Variables) -> Result<OsString, EntryError> {
    let mut out = OsString::new();
    let mut rest = value;
    if value == "~" || value.starts_with("~/") {
        out.push(path("$HOME", &variables.home)?);
        rest = &value[1..];
    }
    while let Some((before, after)) = rest.split_once('$') {
        out.push(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push("$");
            rest = after;
            continue;
        }
        let end =
            after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        match name {
            "WORKSPACE" => out.push(path("$WORKSPACE", &variables.workspace)?),
            "HOME" => out.push(path("$HOME", &variables.home)?),
            "SESSION" => out.push(session(variables)?),
            "" => {
                let known = VARIABLES.join(" or ");
                return Err(refuse(
                    value,
                    format!("'$' begins a variable, {known}; write '$$' for the character itself"),
                ));
            }
            _ => return Err(refuse(value, unknown_variable(name))),
        }
        rest = after;
    }
    out.push(rest);
    Ok(out)
}

fn path<'a>(name: &str, path: &'a Path) -> Result<&'a OsStr, EntryError> {
    if is_plain(path) {
        return Ok(path.as_os_str());
    }
    Err(refuse(
        name,
        format!("it stands for {}, which is not an absolute path without '..'", path.display()),
    ))
}

fn refuse(entry: &str, problem: String) -> EntryError {
    EntryError { entry: entry.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_anywhere_in_a_value() {
        // spec 5.1, 5.6
        let variables = Variables { workspace: "/w".into(), home: "/home/u".into(), session: None };
        for (value, expected) in [
            ("cat", "cat"),
            ("", ""),
            ("$HOME/bin:$WORKSPACE/bin:/bin", "/home/u/bin:/w/bin:/bin"),
            ("~", "/home/u"),
            ("~/x", "/home/u/x"),
            ("a~b", "a~b"),
            ("100$$", "100$"),
            ("$$HOME", "$HOME"),
        ] {
            assert_eq!(expand(value, &variables).unwrap(), expected);
            check(value).unwrap();
        }
    }

    #[test]
    fn unknown_variables_and_single_dollars_are_refused() {
        for (value, reason) in [
            ("$PATH:/bin", "there is no variable $PATH"),
            ("$HOMEX", "there is no variable $HOMEX"),
            ("5$", "write '$$'"),
            ("${HOME}", "write '$$'"),
            ("a\0b", "NUL"),
        ] {
            let error = check(value).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
