//! Rule files: Stockade's own (TOML), and the `permissions` of an agent host's settings file (JSON).

use crate::json::{self, Step};
use crate::place::error_at;
use crate::rule::{Effect, Rule, Style, parse};
use crate::set::{DefaultVerdict, Loaded, RuleLayer};
use crate::{Example, RuleError, RuleErrors, Verdict, place};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::{self, Read};
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
    let text = text_of(path).map_err(|error| {
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

/// A repository may bring its own, so it is not read without end.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    stockade_types::regular::open(path)?.take(FILE_MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MOST {
        return Err(io::Error::other("it is longer than 1 MiB, which no rule file is"));
    }
    Ok(text)
}

/// In bytes.
const FILE_MOST: u64 = 1 << 20;

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
        let settings = match json::unique(self.text.as_bytes()) {
            Ok(settings) => settings,
            Err(error) => {
                let problem = error.to_string();
                let (line, column) = (error.line().max(1), error.column().max(1));
                let file = self.path.to_owned();
                return self.errors.push(RuleError { file, line, column, problem });
            }
        };
        let Some(settings) = settings.as_object() else {
            return self.wrong(0, "a settings file is one JSON object");
        };
        for (key, value) in settings {
            if let Some(problem) = passed_over(key, value) {
                self.wrong(self.offset(&[Step::Name(key)]), problem);
            }
        }
        let Some(permissions) = settings.get(PERMISSIONS) else { return };
        let Some(permissions) = permissions.as_object() else {
            let offset = self.offset(&[Step::Key(PERMISSIONS)]);
            return self.wrong(offset, "permissions must be an object");
        };
        for key in permissions.keys() {
            if !PERMISSION_KEYS.contains(&key.as_str()) {
                let offset = self.offset(&[Step::Key(PERMISSIONS), Step::Name(key)]);
                let known = PERMISSION_KEYS.join(", ");
                self.wrong(offset, format!("permissions.{key} is not known (known: {known})"));
            }
        }
        for (key, effect) in
            [("deny", Effect::Deny), ("ask", Effect::Ask), ("allow", Effect::Allow)]
        {
            let Some(list) = permissions.get(key) else { continue };
            let Some(list) = list.as_array() else {
                let offset = self.offset(&[Step::Key(PERMISSIONS), Step::Key(key)]);
                self.wrong(offset, format!("permissions.{key} must be a list"));
                continue;
            };
            for (at, rule) in list.iter().enumerate() {
                let steps = [Step::Key(PERMISSIONS), Step::Key(key), Step::At(at)];
                let offset = self.offset(&steps);
                match rule.as_str() {
                    Some(text) => self.rule(effect, text, offset, Style::Settings),
                    None => self.wrong(offset, format!("permissions.{key}: {rule} is no text")),
                }
            }
        }
        self.mode(permissions);
    }

    fn mode(&mut self, permissions: &Map<String, Value>) {
        let place = |key| [Step::Key(PERMISSIONS), Step::Key(key)];
        let disabled = permissions.get("disableBypassPermissionsMode");
        if let Some(value) = disabled.filter(|value| value.as_str() != Some("disable")) {
            let problem = format!("{value} means nothing here (known: \"disable\")");
            self.wrong(self.offset(&place("disableBypassPermissionsMode")), problem);
        }
        let Some(mode) = permissions.get("defaultMode") else { return };
        let offset = self.offset(&place("defaultMode"));
        match mode.as_str() {
            Some("default" | "plan") => {}
            Some("dontAsk") => self.loaded.default = Some(DefaultVerdict::Deny),
            Some("acceptEdits") => self.rule(Effect::Allow, "Edit(**)", offset, Style::Settings),
            // There, it turns every question off; here the policy confines all the same.
            Some("bypassPermissions") if disabled.is_none() => {
                self.loaded.default = Some(DefaultVerdict::Confine);
            }
            Some("bypassPermissions") => {
                self.wrong(offset, "disableBypassPermissionsMode stands beside it");
            }
            _ => self.wrong(offset, format!("{mode} is no known defaultMode")),
        }
    }

    fn offset(&self, steps: &[Step]) -> usize {
        json::offset(self.text, steps)
    }
}

const PERMISSIONS: &str = "permissions";
const PERMISSION_KEYS: [&str; 6] = [
    "allow",
    "ask",
    "deny",
    "defaultMode",
    "disableBypassPermissionsMode",
    "additionalDirectories",
];

/// Why a key at the top of a settings file cannot be passed over. Agent hosts have dozens of keys that are about other things, and more with
/// each version; what may have been meant as rules is not one of them.
fn passed_over(key: &str, value: &Value) -> Option<String> {
    if key == PERMISSIONS {
        return None;
    }
    let lower = key.to_lowercase();
    let near = |known: &str| {
        let known = known.to_lowercase();
        lower == known || (known.len() > 5 && edits(&lower, &known) <= 2)
    };
    if near(PERMISSIONS) {
        return Some(format!("{key:?} is not known: write \"permissions\""));
    }
    // Beside "permissions" where they belong into it, or in an object of another name.
    let holds = |object: &Map<String, Value>| {
        object.keys().any(|key| matches!(key.to_lowercase().as_str(), "deny" | "ask" | "allow"))
    };
    let misplaced = PERMISSION_KEYS.iter().any(|known| near(known));
    let holds_rules = value.as_object().is_some_and(holds)
        && !matches!(key, "hooks" | "env" | "sandbox" | "enabledPlugins" | "pluginConfigs");
    (misplaced || holds_rules)
        .then(|| format!("{key:?}: rules stand in \"permissions\", and nowhere else"))
}

/// How many letters must be added, taken away or changed to make one word of another.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut next = vec![at + 1];
        for (place, (other, pair)) in right.iter().zip(row.windows(2)).enumerate() {
            let [across, above] = pair else { continue };
            let before = next.get(place).copied().unwrap_or(usize::MAX);
            let changed = across + usize::from(letter != *other);
            next.push(changed.min(above + 1).min(before.saturating_add(1)));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
