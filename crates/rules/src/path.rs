use crate::command::Match;
use crate::overlap::{Piece, literal, pieces};
use crate::rule::Style;
use crate::set::RuleScope;
use globset::{GlobBuilder, GlobMatcher};
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// The pattern of a rule for a file tool: a glob, relative to the workspace, absolute, or in the home folder. `*` stays within a folder,
/// `**` does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathRule {
    base: Base,
    /// Below the base; empty for the base itself.
    glob: String,
    compiled: Compiled,
}

/// The glob, compiled when it is first needed: a session asks it at every word of every line.
#[derive(Clone, Debug, Default)]
struct Compiled(OnceLock<(RuleScope, Option<GlobMatcher>)>);

impl PartialEq for Compiled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Compiled {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Root,
    Workspace,
    Home,
}

impl PathRule {
    pub fn parse(text: &str, style: Style) -> Result<Self, String> {
        let (base, rest) = if let Some(rest) = text.strip_prefix("~/") {
            (Base::Home, rest)
        } else if let Some(rest) = text.strip_prefix("//") {
            (Base::Root, rest)
        } else if let Some(rest) = text.strip_prefix('/') {
            (if style == Style::Settings { Base::Workspace } else { Base::Root }, rest)
        } else {
            (Base::Workspace, text.strip_prefix("./").unwrap_or(text))
        };
        if rest.split('/').any(|part| part == "..") {
            return Err(format!("{text:?}: a pattern has no '..'; write the path from / or ~"));
        }
        // A folder means what is in it.
        let glob = match rest {
            "" | "." if base == Base::Workspace => "**".to_owned(),
            _ if rest.ends_with('/') => format!("{rest}**"),
            _ => rest.to_owned(),
        };
        build(&glob).map_err(|error| format!("{text:?}: {error}"))?;
        Ok(Self { base, glob, compiled: Compiled::default() })
    }

    fn matcher(&self, scope: &RuleScope) -> Cow<'_, Option<GlobMatcher>> {
        let (known, matcher) = self.compiled.0.get_or_init(|| (scope.clone(), self.compile(scope)));
        if known == scope { Cow::Borrowed(matcher) } else { Cow::Owned(self.compile(scope)) }
    }

    fn compile(&self, scope: &RuleScope) -> Option<GlobMatcher> {
        let base = match self.base {
            Base::Root => PathBuf::from("/"),
            Base::Workspace => scope.workspace.clone(),
            Base::Home => scope.home.clone()?,
        };
        let base = globset::escape(base.to_str()?);
        let glob = format!("{}/{}", base.trim_end_matches('/'), self.glob);
        build(glob.trim_end_matches('/')).ok()
    }

    /// What is meant, as a pattern that can be compared with another.
    pub fn pieces(&self, scope: &RuleScope) -> Vec<Piece> {
        let base = match self.base {
            Base::Root => Some(PathBuf::from("/")),
            Base::Workspace => Some(scope.workspace.clone()),
            Base::Home => scope.home.clone(),
        };
        let Some(base) = base.as_deref().and_then(Path::to_str) else { return vec![Piece::Any] };
        let mut found = literal(base.trim_end_matches('/'));
        found.push(Piece::Is('/'));
        found.extend(pieces(&self.glob));
        found
    }

    fn base(&self, scope: &RuleScope) -> Option<PathBuf> {
        match self.base {
            Base::Root => Some(PathBuf::from("/")),
            Base::Workspace => Some(scope.workspace.clone()),
            Base::Home => scope.home.clone(),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.glob.split('/').filter(|part| !part.is_empty())
    }

    /// See [`crate::PathDenial::start`].
    pub fn start(&self, scope: &RuleScope) -> Option<PathBuf> {
        let fixed = self.parts().take_while(|part| !is_wild(part)).filter(|part| *part != ".");
        Some(fixed.fold(self.base(scope)?, |path, part| path.join(part)))
    }

    /// The same pattern below another start.
    pub fn moved_to(&self, start: &Path) -> Option<PathRule> {
        let mut glob = globset::escape(start.to_str()?.trim_matches('/'));
        for part in self.parts().skip_while(|part| !is_wild(part)) {
            if !glob.is_empty() {
                glob.push('/');
            }
            glob.push_str(part);
        }
        build(&glob).ok()?;
        Some(Self { base: Base::Root, glob, compiled: Compiled::default() })
    }

    /// See [`crate::PathDenial::depth`].
    pub fn depth(&self) -> Option<usize> {
        // Alternatives may hold a '/'.
        let open = self.glob.contains("**") || self.glob.contains('{');
        (!open).then(|| self.parts().skip_while(|part| !is_wild(part)).count())
    }

    /// See [`crate::PathDenial::means_all_in`].
    pub fn means_all_in(&self, folder: &Path, scope: &RuleScope) -> bool {
        self.glob.ends_with("**") && self.matches(&folder.join("\u{1}any"), scope)
    }

    /// Whether it means what git keeps of its own.
    pub fn is_of_git(&self) -> bool {
        self.parts().any(|part| part == ".git")
    }

    /// Whether it means hidden files alone, or what is in hidden folders.
    pub fn is_hidden(&self) -> bool {
        self.glob.split('/').any(|part| part.starts_with('.'))
    }

    /// Whether a path is meant.
    pub fn matches(&self, path: &Path, scope: &RuleScope) -> bool {
        self.matcher(scope).as_ref().as_ref().is_some_and(|matcher| matcher.is_match(path))
    }

    /// Whether a folder lies where the rule's own beginning does, or all in it is meant: a pattern that may mean something in any folder
    /// owns none.
    pub fn owns(&self, folder: &Path, scope: &RuleScope) -> bool {
        let starts = self.parts().next().is_some_and(|part| !is_wild(part))
            && self.start(scope).is_some_and(|start| folder.starts_with(start));
        starts || self.matches(&folder.join("x"), scope)
    }

    /// Whether a search in this folder may come upon what is meant.
    pub fn meets(&self, folder: &Path, scope: &RuleScope) -> Match {
        let matcher = self.matcher(scope);
        let Some(matcher) = matcher.as_ref() else { return Match::Maybe };
        if matcher.is_match(folder) || matcher.is_match(folder.join("x")) {
            return Match::Yes;
        }
        let base = match self.base {
            Base::Root => PathBuf::from("/"),
            Base::Workspace => scope.workspace.clone(),
            Base::Home => scope.home.clone().unwrap_or_default(),
        };
        let fixed: PathBuf =
            self.glob.split('/').take_while(|part| !part.contains(['*', '?', '[', '{'])).collect();
        let fixed = base.join(fixed);
        if fixed.starts_with(folder) || folder.starts_with(&fixed) {
            Match::Maybe
        } else {
            Match::No
        }
    }
}

fn is_wild(part: &str) -> bool {
    part.contains(['*', '?', '[', '{', '\\'])
}

fn build(glob: &str) -> Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(true)
        .build()?
        .compile_matcher())
}

/// A path as it is written, made absolute, its `.` and `..` taken out by their names alone: what links do is the kernel's to decide.
pub(crate) fn absolute(written: &str, scope: &RuleScope) -> PathBuf {
    let path = match written.strip_prefix('~') {
        Some("") => scope.home.clone().unwrap_or_else(|| PathBuf::from("~")),
        Some(rest) if rest.starts_with('/') => match &scope.home {
            Some(home) => home.join(rest.trim_start_matches('/')),
            None => PathBuf::from(written),
        },
        _ => scope.workspace.join(written),
    };
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}
