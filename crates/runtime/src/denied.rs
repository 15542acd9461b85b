//! Rules that deny paths, handed to the kernel (spec 2.5, 5.4, 5.8): what they mean is hidden from the calls, or read-only for them, whatever a
//! command looks like. Patterns are looked up on the host before each call, as the policy's own are for a cell.

use crate::links::Leads;
use crate::sync::Mutex;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};
use stockade_policy::{Overlay, Policy, Variables};
use stockade_rules::{PathDenial, RuleScope, RuleSet};
use stockade_types::Refusal;

/// Names of folders' entries that are read for the patterns of one call, at most.
const NAMES_MOST: usize = 1_000_000;
/// Paths that are handed to the kernel, at most: each is a mount of the cell.
const PATHS_MOST: usize = 4096;
/// A folder that changed so shortly before it was read may have changed again at the same time of its clock.
const SETTLED: Duration = Duration::from_millis(100);
/// What is no file of anybody's.
const NO_FILES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The rules of a session that deny paths.
#[derive(Debug, Default)]
pub struct DeniedPaths {
    denials: Vec<PathDenial>,
    workspace: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    folders: Folders,
    leads: Leads,
    /// The last answer: the policy that was asked about, what was found, what was made of it.
    last: Option<(Arc<Policy>, Found, Confined)>,
}

/// A policy with what the rules deny taken out.
#[derive(Clone, Debug)]
pub struct Confined {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Its digest; `None`: it is the policy that was asked about.
    pub(crate) digest: Option<Arc<str>>,
    /// Rules that the kernel does not hold, or not all of what they mean, and why.
    pub not_enforced: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    hide: BTreeSet<PathBuf>,
    protect: BTreeSet<PathBuf>,
}

impl DeniedPaths {
    /// What these rules deny in a session.
    pub fn new(rules: &RuleSet, scope: &RuleScope) -> Self {
        let denials = rules.path_denials(scope);
        Self { denials, workspace: scope.workspace.clone(), known: Mutex::default() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.denials.is_empty()
    }

    /// The rules, in words.
    pub(crate) fn in_words(&self) -> String {
        let rules: Vec<&str> = self.denials.iter().map(|denial| denial.rule.as_str()).collect();
        rules.join(", ")
    }

    /// The policy without what the rules deny, as the host's files are now. Refused where that cannot be found out.
    pub fn confine(
        &self,
        policy: &Arc<Policy>,
        variables: &Variables,
    ) -> Result<Confined, Refusal> {
        let unchanged =
            |not_enforced| Confined { policy: Arc::clone(policy), digest: None, not_enforced };
        if self.denials.is_empty() {
            return Ok(unchanged(Vec::new()));
        }
        if policy.is_full_access() {
            let why = "the policy confines no file";
            let rules = self.denials.iter();
            return Ok(unchanged(rules.map(|rule| (rule.rule.clone(), why.to_owned())).collect()));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.look(&mut known)?;
        if let Some((before, what, confined)) = &known.last
            && Arc::ptr_eq(before, policy)
            && *what == found
        {
            return Ok(confined.clone());
        }
        let refused = |problem: String| Refusal {
            by: "rule".to_owned(),
            reason: format!("what rules deny cannot be kept from this call: {problem}"),
        };
        let hide = found.hide.iter().cloned().collect();
        let overlay = Overlay { hide, ..Overlay::default() };
        let mut narrowed =
            policy.with_overlay(&overlay, variables).map_err(|error| refused(error.to_string()))?;
        narrowed.filesystem.literal.protect.extend(found.protect.iter().cloned());
        let digest = Some(narrowed.digest().into());
        let not_enforced = self.not_enforced();
        let confined = Confined { policy: Arc::new(narrowed), digest, not_enforced };
        known.last = Some((Arc::clone(policy), found, confined.clone()));
        Ok(confined)
    }

    /// A rule that denies reading a file which a repository in the workspace tracks: hidden, it looks deleted, and git shows what it was.
    pub(crate) fn tracked(&self) -> Option<String> {
        if !self.denials.iter().any(|denial| denial.read) {
            return None;
        }
        let index = fs::read(self.workspace.join(".git/index")).ok()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.look(&mut known).ok()?;
        let path = found.hide.iter().find(|path| {
            let below = path.strip_prefix(&self.workspace).map(|path| path.as_os_str().as_bytes());
            below.is_ok_and(|name| {
                !name.is_empty() && index.windows(name.len()).any(|window| window == name)
            })
        })?;
        let denial = self.denials.iter().find(|denial| denial.read && denial.matches(path));
        Some(denial.map_or_else(String::new, |denial| denial.rule.clone()))
    }

    /// What the kernel cannot be told: names that nobody has yet.
    fn not_enforced(&self) -> Vec<(String, String)> {
        let open = |denial: &&PathDenial| {
            let start = denial.start();
            denial.write
                && start.is_some_and(|start| match self.workspace.starts_with(&start) {
                    true => true,
                    // A folder that is not there yet holds nothing that could be told.
                    false if denial.means_all_in(&start) => start.symlink_metadata().is_err(),
                    false => denial.depth() != Some(0),
                })
        };
        let why = "what does not exist yet can be made by a command: the kernel is told paths, not patterns";
        let rules = self.denials.iter().filter(open);
        rules.map(|denial| (denial.rule.clone(), why.to_owned())).collect()
    }

    fn look(&self, known: &mut Known) -> Result<Found, Refusal> {
        let Known { folders, leads, .. } = known;
        let mut found = Found::default();
        let mut names = 0;
        for denial in self.led(leads) {
            let denial = &*denial;
            let Some(start) = denial.start() else { continue };
            let mut paths = BTreeSet::new();
            if denial.depth() == Some(0) {
                if self.workspace.starts_with(&start) {
                    // It must be somewhere, so what is in it is meant one by one.
                    let names = folders.list(&self.workspace).iter();
                    paths.extend(names.map(|(name, _)| self.workspace.join(name)));
                }
                // What is to be unreadable and is not there is nothing; what must not be written must not come into being.
                else if denial.write || start.symlink_metadata().is_ok() {
                    paths.insert(start);
                }
            } else {
                let excess = self.below(denial, start, folders, &mut paths, &mut names);
                if excess.is_some() || paths.len() > PATHS_MOST {
                    let what = excess.unwrap_or_else(|| format!("more than {PATHS_MOST} paths"));
                    return Err(Refusal {
                        by: "rule".to_owned(),
                        reason: format!(
                            "what {} means cannot be kept from this call: {what}; write the rule with less in it",
                            denial.rule
                        ),
                    });
                }
            }
            if denial.read {
                found.hide.extend(paths);
            } else {
                found.protect.extend(paths);
            }
        }
        self.other_names(&mut found.hide, folders);
        Ok(found)
    }

    /// The denials as they are written, and as links lead their starts.
    fn led<'a>(&'a self, leads: &mut Leads) -> Vec<Cow<'a, PathDenial>> {
        let mut all: Vec<Cow<PathDenial>> = self.denials.iter().map(Cow::Borrowed).collect();
        for denial in &self.denials {
            let Some(start) = denial.start() else { continue };
            leads.look(&start);
            all.extend(leads.of(&start).filter_map(|led| denial.led_to(led)).map(Cow::Owned));
        }
        all
    }

    /// Other names of hidden files in the workspace: whoever reads one reads the file.
    fn other_names(&self, hide: &mut BTreeSet<PathBuf>, folders: &mut Folders) {
        let file = |path: &Path| {
            let metadata = path.symlink_metadata().ok().filter(|found| found.is_file())?;
            (metadata.nlink() > 1).then(|| (metadata.dev(), metadata.ino()))
        };
        let wanted: BTreeSet<(u64, u64)> = hide.iter().filter_map(|path| file(path)).collect();
        if wanted.is_empty() {
            return;
        }
        let mut left = vec![self.workspace.clone()];
        let mut names = 0;
        while let Some(folder) = left.pop() {
            for (name, is_folder) in folders.list(&folder) {
                let path = folder.join(name);
                names += 1;
                if *is_folder {
                    left.push(path);
                } else if file(&path).is_some_and(|found| wanted.contains(&found)) {
                    hide.insert(path);
                }
            }
            if names > NAMES_MOST {
                return;
            }
        }
    }

    /// What is meant below a folder. With a text: why it cannot be told.
    fn below(
        &self,
        denial: &PathDenial,
        start: PathBuf,
        folders: &mut Folders,
        paths: &mut BTreeSet<PathBuf>,
        names: &mut usize,
    ) -> Option<String> {
        let mut left = vec![(start, 0)];
        while let Some((folder, depth)) = left.pop() {
            if NO_FILES.iter().any(|no_files| folder == Path::new(no_files)) {
                continue;
            }
            // All of it at once, and what comes into being there too; but the workspace must be somewhere.
            if denial.means_all_in(&folder) && !self.workspace.starts_with(&folder) {
                if folder.symlink_metadata().is_ok() {
                    paths.insert(folder);
                }
                continue;
            }
            for (name, is_folder) in folders.list(&folder) {
                *names += 1;
                let path = folder.join(name);
                if denial.matches(&path) && !self.workspace.starts_with(&path) {
                    paths.insert(path);
                } else if *is_folder && denial.depth().is_none_or(|most| depth + 1 < most) {
                    left.push((path, depth + 1));
                }
            }
            if *names > NAMES_MOST {
                return Some(format!("it must be looked for among more than {NAMES_MOST} files"));
            }
        }
        None
    }
}

/// Folders that were read, and are not read again while they stay the same.
#[derive(Debug, Default)]
struct Folders(HashMap<PathBuf, Listing>);

#[derive(Debug)]
struct Listing {
    changed: (i64, i64, u64, u64),
    entries: Vec<(OsString, bool)>,
}

impl Folders {
    /// Names, and whether each is a folder. Nothing, where there is no folder or it cannot be read: no call can read it either.
    fn list(&mut self, folder: &Path) -> &[(OsString, bool)] {
        let Ok(metadata) = folder.symlink_metadata() else {
            self.0.remove(folder);
            return &[];
        };
        let changed = (metadata.ctime(), metadata.ctime_nsec(), metadata.dev(), metadata.ino());
        if self.0.get(folder).is_none_or(|known| known.changed != changed) {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let entries = entries
                .map(|entry| (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir())))
                .collect();
            // Not to be taken for the same when it is asked next, unless its time has passed.
            let settled = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .ok()
                .and_then(|now| now.checked_sub(SETTLED))
                .is_some_and(|before| {
                    i64::try_from(before.as_secs()).is_ok_and(|seconds| {
                        (changed.0, changed.1) < (seconds, i64::from(before.subsec_nanos()))
                    })
                });
            let changed = if settled { changed } else { (0, 0, 0, 0) };
            self.0.insert(folder.to_owned(), Listing { changed, entries });
        }
        self.0.get(folder).map_or(&[], |known| known.entries.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use stockade_rules::RuleLayer;

    struct Scene {
        folder: tempfile::TempDir,
        policy: Arc<Policy>,
        denied: DeniedPaths,
    }

    impl Scene {
        fn new(rules: &str) -> Self {
            Self::at(tempfile::tempdir().unwrap(), rules)
        }

        fn at(folder: tempfile::TempDir, rules: &str) -> Self {
            let workspace = folder.path().join("w");
            fs::create_dir_all(workspace.join("a/b")).unwrap();
            fs::create_dir(folder.path().join("home")).unwrap();
            let file = folder.path().join("rules.toml");
            fs::write(&file, rules).unwrap();
            let mut set = RuleSet::default();
            set.add_file(RuleLayer::User, &file).unwrap();
            let home = Some(folder.path().join("home"));
            let denied = DeniedPaths::new(&set, &RuleScope { workspace, home });
            let policy = Arc::new(Policy::load(OsStr::new("workspace-write")).unwrap());
            Self { folder, policy, denied }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn file(&self, name: &str) {
            fs::write(self.path(name), "x").unwrap();
        }

        fn confine(&self) -> Confined {
            let (workspace, home) = (self.path("w"), self.path("home"));
            let variables = Variables { workspace, home, session: None };
            self.denied.confine(&self.policy, &variables).unwrap()
        }

        fn hidden(&self) -> Vec<PathBuf> {
            self.confine().policy.filesystem.literal.hide.clone()
        }
    }

    #[test]
    fn what_may_not_be_read_is_hidden_and_what_comes_into_being_is_found_at_the_next_call() {
        // spec 2.5, 5.4
        let scene = Scene::new(
            r#"deny = ["Read(.env)", "Read(**/*.pem)", "Read(a/secrets/**)", "Read(~/.netrc)", "Read(/nowhere/x)"]"#,
        );
        assert_eq!(scene.hidden(), Vec::<PathBuf>::new());
        scene.file("w/.env");
        scene.file("w/a/b/k.pem");
        scene.file("home/.netrc");
        fs::create_dir(scene.path("w/a/secrets")).unwrap();
        let all = ["home/.netrc", "w/.env", "w/a/b/k.pem", "w/a/secrets"];
        assert_eq!(scene.hidden(), all.map(|name| scene.path(name)));
        let (one, other) = (scene.confine(), scene.confine());
        assert!(Arc::ptr_eq(&one.policy, &other.policy), "nothing changed");
        assert!(one.not_enforced.is_empty());
        fs::remove_file(scene.path("w/a/b/k.pem")).unwrap();
        scene.file("w/k.pem");
        assert!(scene.hidden().contains(&scene.path("w/k.pem")));
        assert!(!scene.hidden().contains(&scene.path("w/a/b/k.pem")));
    }

    #[test]
    fn what_may_not_be_written_is_protected_and_what_the_kernel_cannot_be_told_is_named() {
        // spec 2.5, 5.3, 5.4
        let scene = Scene::new(r#"deny = ["Edit(secret)", "Write(a/b/**)", "Edit(**/*.lock)"]"#);
        scene.file("w/x.lock");
        let confined = scene.confine();
        let protect = &confined.policy.filesystem.literal.protect;
        assert_eq!(*protect, ["w/a/b", "w/secret", "w/x.lock"].map(|name| scene.path(name)));
        let [(rule, _)] = confined.not_enforced.as_slice() else { panic!("{confined:?}") };
        assert!(rule.contains("Edit(**/*.lock)"), "{rule}");
    }

    #[test]
    fn all_of_a_workspace_is_hidden_file_by_file_since_calls_must_run_somewhere() {
        let scene = Scene::new(r#"deny = ["Read(~/**)"]"#);
        scene.file("home/x");
        assert_eq!(scene.hidden(), [scene.path("home")]);
        let scene = Scene::new(r#"deny = ["Read(./**)"]"#);
        scene.file("w/x");
        assert_eq!(scene.hidden(), ["w/a", "w/x"].map(|name| scene.path(name)));
    }

    #[test]
    fn what_means_the_whole_workspace_is_held_for_what_is_in_it_and_the_rest_is_named() {
        // spec 2.5, 5.3
        for rule in ["Edit(**)", "Edit(*)", "Edit(.)", "Edit(./)", "Edit(WORKSPACE)"] {
            let folder = tempfile::tempdir().unwrap();
            let absolute = folder.path().join("w");
            let scene = Scene::at(
                folder,
                &format!("deny = [\"{rule}\"]").replace("WORKSPACE", absolute.to_str().unwrap()),
            );
            scene.file("w/x");
            let confined = scene.confine();
            let protect = &confined.policy.filesystem.literal.protect;
            assert_eq!(*protect, ["w/a", "w/x"].map(|name| scene.path(name)), "{rule}");
            assert_eq!(confined.not_enforced.len(), 1, "{rule}: new names can be made");
        }
        let scene = Scene::new(r#"deny = ["Edit(none/**)", "Edit(a/**)"]"#);
        let [(rule, _)] = &scene.confine().not_enforced[..] else { panic!("one is named") };
        assert!(rule.starts_with("Edit(none/**)"), "{rule}");
    }

    #[test]
    fn what_a_link_leads_to_is_meant_and_a_link_that_is_put_elsewhere_undoes_nothing() {
        // spec 2.5
        let scene = Scene::new(r#"deny = ["Read(link/k)"]"#);
        scene.file("w/a/k");
        scene.file("w/a/b/k");
        std::os::unix::fs::symlink("a", scene.path("w/link")).unwrap();
        assert!(scene.hidden().contains(&scene.path("w/a/k")));
        fs::remove_file(scene.path("w/link")).unwrap();
        std::os::unix::fs::symlink("a/b", scene.path("w/link")).unwrap();
        for led in ["w/a/k", "w/a/b/k"] {
            assert!(scene.hidden().contains(&scene.path(led)), "{led}");
        }
    }

    #[test]
    fn full_access_confines_no_file_and_says_so() {
        let mut scene = Scene::new(r#"deny = ["Read(.env)"]"#);
        scene.policy = Arc::new(Policy::load(OsStr::new("danger-full-access")).unwrap());
        let confined = scene.confine();
        assert!(Arc::ptr_eq(&confined.policy, &scene.policy));
        assert_eq!(confined.not_enforced.len(), 1);
    }
}
