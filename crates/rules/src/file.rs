//! Rule files: Stockade's own (TOML), and the `permissions` of an agent host's settings file (JSON).

use crate::place::error_at;
use crate::rule::{Effect, Rule, Style, parse};
use crate::set::{DefaultVerdict, Loaded, RuleLayer};
use crate::{Example, RuleError, RuleErrors, Verdict, place};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use toml::Spanned;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct RuleFile {
    default: Option<Spanned<String>>,
    deny: Vec<Spanned<String>>,
    ask: Vec<Spanned<String>>,
    allow: Vec<Spanned<String>>,
    example: Vec<ExampleEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExampleEntry {
    call: Spanned<String>,
    expect: Spanned<String>,
}

pub(crate) fn load(layer: RuleLayer, path: &Path) -> Result<Loaded, RuleErrors> {
    let is_settings = path.extension().is_some_and(|ending| ending == "json");
    read(layer, path, is_settings)
}

pub(crate) fn load_settings(layer: RuleLayer, path: &Path) -> Result<Loaded, RuleErrors> {
    read(layer, path, true)
}

fn read(layer: RuleLayer, path: &Path, is_settings: bool) -> Result<Loaded, RuleErrors> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let problem = format!("cannot be read: {error}");
        RuleErrors(vec![RuleError { file: path.to_owned(), line: 1, column: 1, problem }])
    })?;
    let mut reading = Reading {
        path,
        text: &text,
        layer,
        errors: Vec::new(),
        loaded: Loaded { layer, rules: Vec::new(), default: None, examples: Vec::new() },
    };
    if is_settings {
        reading.settings();
    } else {
        reading.own();
    }
    if reading.errors.is_empty() { Ok(reading.loaded) } else { Err(RuleErrors(reading.errors)) }
}

struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
    layer: RuleLayer,
    errors: Vec<RuleError>,
    loaded: Loaded,
}

impl Reading<'_> {
    fn wrong(&mut self, offset: usize, problem: impl Into<String>) {
        self.errors.push(error_at(self.path, self.text, offset, problem));
    }

    fn rule(&mut self, effect: Effect, text: &str, offset: usize, style: Style) {
        if effect == Effect::Allow && self.layer == RuleLayer::Managed {
            return self.wrong(offset, format!("{text:?}: a managed file can only tighten: it has deny, ask and default, and no allow"));
        }
        match parse(text, style) {
            Ok((tool, pattern)) => {
                let (line, _) = place::line_and_column(self.text, offset);
                let (text, file) = (text.to_owned(), self.path.to_owned());
                self.loaded.rules.push(Rule { text, effect, file, line, tool, pattern });
            }
            Err(problem) => self.wrong(offset, problem),
        }
    }

    fn own(&mut self) {
        let file: RuleFile = match toml::from_str(self.text) {
            Ok(file) => file,
            Err(error) => {
                let offset = error.span().map_or(0, |span| span.start);
                return self.wrong(offset, error.message().replace('\n', "; "));
            }
        };
        for (effect, list) in
            [(Effect::Deny, file.deny), (Effect::Ask, file.ask), (Effect::Allow, file.allow)]
        {
            for rule in list {
                self.rule(effect, rule.get_ref(), rule.span().start, Style::Own);
            }
        }
        if let Some(default) = file.default {
            self.loaded.default = match default.get_ref().as_str() {
                "confine" => Some(DefaultVerdict::Confine),
                "ask" => Some(DefaultVerdict::Ask),
                "deny" => Some(DefaultVerdict::Deny),
                other => {
                    let problem = format!("{other:?} is no default (known: confine, ask, deny)");
                    return self.wrong(default.span().start, problem);
                }
            };
        }
        for entry in file.example {
            let offset = entry.call.span().start;
            let expect = match entry.expect.get_ref().as_str() {
                "allow" => Some(Verdict::Allow),
                "ask" => Some(Verdict::Ask),
                "deny" => Some(Verdict::Deny),
                "confine" => None,
                other => {
                    let problem = format!(
                        "{other:?} is nothing to expect (known: allow, ask, deny, confine)"
                    );
                    self.wrong(entry.expect.span().start, problem);
                    continue;
                }
            };
            let (line, _) = place::line_and_column(self.text, offset);
            match Example::new(entry.call.get_ref(), expect, self.path, line) {
                Ok(example) => self.loaded.examples.push(example),
                Err(problem) => self.wrong(offset, problem),
            }
        }
    }

    fn settings(&mut self) {
        let settings: Value = match serde_json::from_str(self.text) {
            Ok(settings) => settings,
            Err(error) => {
                let problem = error.to_string();
                let (line, column) = (error.line().max(1), error.column().max(1));
                return self.errors.push(RuleError {
                    file: self.path.to_owned(),
                    line,
                    column,
                    problem,
                });
            }
        };
        let Some(permissions) = settings.get("permissions") else { return };
        let Some(permissions) = permissions.as_object() else {
            return self.wrong(self.offset_of("permissions"), "permissions must be an object");
        };
        for (key, effect) in
            [("deny", Effect::Deny), ("ask", Effect::Ask), ("allow", Effect::Allow)]
        {
            let Some(list) = permissions.get(key) else { continue };
            let Some(list) = list.as_array() else {
                self.wrong(self.offset_of(key), format!("permissions.{key} must be a list"));
                continue;
            };
            for rule in list {
                match rule.as_str() {
                    Some(text) => self.rule(effect, text, self.offset_of(text), Style::Settings),
                    None => self.wrong(
                        self.offset_of(key),
                        format!("permissions.{key}: {rule} is no text"),
                    ),
                }
            }
        }
        match permissions.get("defaultMode").and_then(Value::as_str) {
            None | Some("default" | "plan") => {}
            Some("dontAsk") => self.loaded.default = Some(DefaultVerdict::Deny),
            Some("acceptEdits") => {
                self.rule(Effect::Allow, "Edit(**)", self.offset_of("acceptEdits"), Style::Settings)
            }
            // There, it turns every question off; here the policy confines all the same.
            Some("bypassPermissions") => self.loaded.default = Some(DefaultVerdict::Confine),
            Some(other) => {
                self.wrong(self.offset_of(other), format!("{other:?} is no known defaultMode"))
            }
        }
    }

    /// Where a text of a JSON file stands: its first place will do for a person.
    fn offset_of(&self, text: &str) -> usize {
        let quoted = Value::from(text).to_string();
        self.text.find(&quoted).unwrap_or(0)
    }
}
