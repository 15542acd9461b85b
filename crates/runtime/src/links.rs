//! Where links lead, for rules: they are asked about what is written, and what is done happens where links lead it. The host is asked, whose tree
//! the calls see, whatever else they do not.

use crate::sync::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use stockade_rules::{Links, RuleScope, RuleSet};

/// path_resolution(7).
const LINKS_MOST: usize = 40;
/// Names of one folder that are looked at for links.
const NAMES_MOST: usize = 10_000;
/// Ways of one start that are kept in mind.
const LEADS_MOST: usize = 64;

/// Links of the host, each looked at once: for one judgement.
#[derive(Default)]
pub(crate) struct HostLinks(RefCell<HashMap<PathBuf, Option<PathBuf>>>);

impl Links for HostLinks {
    fn lead(&self, path: &Path) -> Option<PathBuf> {
        let look = || Some(resolved(path)).filter(|led| led != path);
        self.0.borrow_mut().entry(path.to_owned()).or_insert_with(look).clone()
    }

    fn in_folder(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().take(NAMES_MOST).flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        links.map(|entry| resolved(&entry.path())).collect()
    }
}

/// A path with the links in it followed as far as it exists, and links that lead to nothing yet as well: what is made through one is made
/// where it leads.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MOST {
        let exists = |folder: &Path| Some((folder.canonicalize().ok()?, folder.to_owned()));
        let Some((real, existing)) = path.ancestors().find_map(exists) else { return path };
        let rest = path.strip_prefix(&existing).unwrap_or(Path::new(""));
        let mut names = rest.components();
        let Some(first) = names.next() else { return real };
        match real.join(first).read_link() {
            Ok(target) => path = real.join(target).join(names.as_path()),
            Err(_) => return real.join(rest),
        }
    }
    path
}

/// Where the starts of rules' patterns have led in a session. Nothing is forgotten: a call that can put a link elsewhere undoes no rule by that.
#[derive(Debug, Default)]
pub(crate) struct Leads(BTreeMap<PathBuf, BTreeSet<PathBuf>>);

impl Leads {
    /// Looks at a start again; whether it leads where it never has.
    pub(crate) fn look(&mut self, start: &Path) -> bool {
        let led = resolved(start);
        if led == start {
            return false;
        }
        let known = self.0.entry(start.to_owned()).or_default();
        known.len() < LEADS_MOST && known.insert(led)
    }

    /// Where a start has led.
    pub(crate) fn of(&self, start: &Path) -> impl Iterator<Item = &PathBuf> {
        self.0.get(start).into_iter().flatten()
    }
}

/// The rules of a session, which mean what their patterns lead to as well.
pub(crate) struct LinkedRules {
    written: RuleSet,
    scope: RuleScope,
    starts: BTreeSet<PathBuf>,
    known: Mutex<(Leads, Arc<RuleSet>)>,
}

impl LinkedRules {
    pub(crate) fn new(written: RuleSet, scope: RuleScope) -> Self {
        let starts = written.starts(&scope);
        let known = Mutex::new((Leads::default(), Arc::new(written.clone())));
        Self { written, scope, starts, known }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The rules, as links lead now.
    pub(crate) fn now(&self) -> Arc<RuleSet> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (leads, rules) = &mut *known;
        let found = self.starts.iter().filter(|start| leads.look(start)).count();
        if found > 0 {
            *rules = Arc::new(self.written.led(&self.scope, &leads.0));
        }
        Arc::clone(rules)
    }
}
