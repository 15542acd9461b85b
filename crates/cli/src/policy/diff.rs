use super::{Answer, load, variables};
use serde_json::json;
use std::ffi::OsStr;
use std::path::Path;
use stockade_policy::{Effective, Line};

/// What two policies say that the other does not, and which of them allows more.
pub fn diff(a: &OsStr, b: &OsStr, workspace: Option<&Path>) -> Result<Answer, String> {
    let (a, b) = (load(a)?, load(b)?);
    let variables = variables(workspace)?;
    let more = |of: &Effective, than: &Effective| {
        of.policy
            .excess_over(&[&than.policy], &variables)
            .map(|excess| excess.map(|excess| excess.to_string()))
            .map_err(|error| error.to_string())
    };
    let (only_a, only_b) = (only(&a, &b), only(&b, &a));
    let (a_more, b_more) = (more(&a, &b)?, more(&b, &a)?);
    let (name_a, name_b) = (&a.policy.name, &b.policy.name);
    let mut text = String::new();
    for (sign, lines) in [('-', &only_a), ('+', &only_b)] {
        for line in lines {
            let origin = line.origin.as_ref().map_or("default".to_owned(), ToString::to_string);
            text.push_str(&format!("{sign} {} = {:?}  # {origin}\n", line.key, line.value));
        }
    }
    let summary = match (&a_more, &b_more) {
        (None, None) => format!("{name_a} and {name_b} allow the same"),
        (None, Some(more)) => format!("{name_b} allows more than {name_a}: {more}"),
        (Some(more), None) => format!("{name_a} allows more than {name_b}: {more}"),
        (Some(a_more), Some(b_more)) => {
            format!("neither covers the other: {name_a} allows {a_more}, {name_b} allows {b_more}")
        }
    };
    text.push_str(&format!("{summary}\n"));
    let json = json!({
        "a": name_a,
        "b": name_b,
        "only_a": only_a,
        "only_b": only_b,
        "a_covers_b": b_more.is_none(),
        "b_covers_a": a_more.is_none(),
        "a_allows_more": a_more,
        "b_allows_more": b_more,
    });
    let is_no = !only_a.is_empty() || !only_b.is_empty();
    Ok(Answer { text, json, is_no })
}

fn only<'a>(of: &'a Effective, than: &Effective) -> Vec<&'a Line> {
    let says = |effective: &Effective, line: &Line| {
        effective.lines.iter().any(|other| other.key == line.key && other.value == line.value)
    };
    of.lines.iter().filter(|line| line.key != "name" && !says(than, line)).collect()
}
