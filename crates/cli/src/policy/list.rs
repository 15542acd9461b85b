use super::Answer;
use serde_json::json;
use stockade_policy::{shipped_names, shipped_summary};

/// The shipped policies, the narrowest first.
pub fn list() -> Result<Answer, String> {
    let policies: Vec<(&str, &str)> =
        shipped_names().map(|name| (name, shipped_summary(name).unwrap_or_default())).collect();
    let width = policies.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let text =
        policies.iter().map(|(name, summary)| format!("{name:width$}  {summary}\n")).collect();
    let json = policies
        .iter()
        .map(|(name, summary)| json!({"name": name, "summary": summary}))
        .collect::<Vec<_>>();
    Ok(Answer::new(text, json!({"policies": json})))
}
