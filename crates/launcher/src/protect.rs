//! Protected paths (spec 5.4). What exists of them is made read-only, and the folders on the way to it are made mount points, so
//! that neither can be renamed, removed or replaced. What does not exist gets no stub on the host: what a call planted there
//! is found at its end, before its result is given, and put aside under another name. So is what lies in repositories anywhere below
//! ([`nested`]).

mod git_folder;
mod led;
mod nested;
mod swept;
mod tree;
mod watch;
mod way;

use crate::server::failure;
use nested::Nested;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stockade_plan::{Bytes, ProtectedPath, Stage, StageFailure};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process;
pub use swept::Swept;
pub use watch::{Extent, Watch};
use way::{Step, Way};

/// In a folder with more names than that, each is asked for by itself.
const NAMES_MAX: usize = 256;

/// So few names are asked for one by one, rather than a folder read.
const FEW: usize = 4;

/// What has not changed for so long is no plant of another session that runs, which would have put it aside by now.
const OLD: Duration = Duration::from_secs(120);

/// The protected paths of a cell.
pub struct Protected {
    /// Those that the policy names, and behind them what these have been found to lead to: a place keeps its number.
    places: RefCell<Vec<Rc<Place>>>,
    root: Rc<OwnedFd>,
    /// One for each writable root whose git settings are protected.
    nested: Vec<Nested>,
    /// How all stood when a file worker was started. It refuses what the policy names, and knows nothing of what that leads to.
    at_worker: RefCell<Option<Start>>,
    /// Files whose other names have been looked for, with how many they were: inside, nobody can give them one more.
    searched: RefCell<HashSet<(FileId, nix::libc::nlink_t)>>,
    /// What exists can be mounted over.
    mounts: bool,
}

/// One protected path, taken apart.
struct Place {
    path: ProtectedPath,
    /// The writable root.
    base: Arc<OwnedFd>,
    components: Vec<CString>,
    /// The policy does not name it: a link, another name or settings of the host's lead there.
    is_led: bool,
}

/// What a call found at its start: of each protected path, how it stood.
#[derive(Clone, Default)]
pub struct Start(Vec<AtStart>);

/// How a protected path stood when a call started.
#[derive(Clone, Default)]
struct AtStart {
    /// It was there, and has been protected.
    existed: bool,
    /// The links on its way, each with its path: they are whoever's they were, and must lead there still when the call ends.
    links: Vec<(Vec<u8>, Unchanged)>,
    /// Of git's settings, what they said, if that is old enough to be nobody's plant.
    settings: Option<Rc<Vec<u8>>>,
}

/// Device and inode number.
type FileId = (u64, u64);

/// The same, and its time of change: the inode number of what was removed is given to what is made next.
type Unchanged = (FileId, (i64, i64));

fn id(stat: &FileStat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

fn unchanged(stat: &FileStat) -> Unchanged {
    (id(stat), (stat.st_ctime, stat.st_ctime_nsec))
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

impl Place {
    /// Whether its first component exists: most do not, and then this one question is enough.
    fn may_exist(&self) -> bool {
        self.first()
            .is_some_and(|first| fstatat(&*self.base, first, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok())
    }

    fn first(&self) -> Option<&CStr> {
        self.components.first().map(CString::as_c_str)
    }

    /// It is one of git's files of settings.
    fn is_settings(&self) -> bool {
        matches!(self.path.relative.0.as_slice(), b".git/config" | b".git/config.worktree")
    }

    fn way<'a>(&self, root: &'a OwnedFd) -> Way<'a> {
        Way::new(root, &self.path.root.0, self.components.iter().map(CString::as_c_str))
    }
}

impl Protected {
    /// Takes the paths, inside the finished view. Without `mounts`, what exists stays as it is, and only what is planted is found.
    pub fn new(paths: Vec<ProtectedPath>, mounts: bool) -> Result<Self, StageFailure> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open("/", flags, Mode::empty())
            .map_err(|error| failure(Stage::Protect, &error.into(), "/"))?;
        let mut places: Vec<Rc<Place>> = Vec::new();
        for path in paths {
            let base = match places.last().filter(|last| last.path.root == path.root) {
                Some(last) => Arc::clone(&last.base),
                None => Arc::new(
                    relative(&path.root)
                        .and_then(|name| mount::open_path_beneath(root.as_fd(), &name))
                        .map_err(|error| failure(Stage::Protect, &error, path.root.clone()))?,
                ),
            };
            let components = components(&path.relative.0);
            places.push(Rc::new(Place { path, base, components, is_led: false }));
        }
        let root = Rc::new(root);
        // What lies deeper is found by what is mounted over, and what is not.
        let nested = nested(&places, &root, mounts);
        let (places, at_worker) = (RefCell::new(places), RefCell::default());
        Ok(Self { places, root, nested, at_worker, searched: RefCell::default(), mounts })
    }

    /// Protects what exists now, and returns how each path stands. Called again before each call: what is a mount point already
    /// is left as it is, so a second time costs a look-up for each path.
    ///
    /// What was not there when a call started that still runs, is not taken for the host's: it may be that call's, which may have it
    /// open. It is swept, for as long as calls run that may have made it.
    pub fn protect(&self, running: &[&Start]) -> Result<Start, StageFailure> {
        // What leads on is read-only while calls run.
        if running.is_empty() {
            self.find_led();
        }
        let places = self.places();
        let at_worker = self.at_worker.borrow();
        let mut start = Vec::with_capacity(places.len());
        for (index, (place, may_exist)) in places.iter().zip(may_exist(&places)).enumerate() {
            let worker = at_worker.as_ref().filter(|_| place.is_led);
            let earlier = running.iter().copied().chain(worker);
            let mut earlier = earlier.filter_map(|earlier| earlier.0.get(index));
            if let Some(earlier) = earlier.find(|earlier| !earlier.existed) {
                start.push(earlier.clone());
            } else if may_exist {
                let stands = self.protect_one(place);
                start.push(stands.map_err(|e| failure(Stage::Protect, &e, whole(&place.path)))?);
            } else {
                start.push(AtStart::default());
            }
        }
        for nested in &self.nested {
            // A file worker writes at any time.
            if running.is_empty() && at_worker.is_none() {
                nested.take_stock();
            }
            nested.protect().map_err(|error| failure(Stage::Protect, &error, nested.root()))?;
        }
        Ok(Start(start))
    }

    fn places(&self) -> Vec<Rc<Place>> {
        self.places.borrow().clone()
    }

    /// Protects it if it exists. Links are followed: what is protected is what a program outside would find there.
    fn protect_one(&self, place: &Place) -> io::Result<AtStart> {
        let mut stands = AtStart::default();
        for step in place.way(&self.root) {
            match step.kind() {
                SFlag::S_IFLNK => stands.links.push((step.at(), step.unchanged())),
                SFlag::S_IFDIR if !step.is_last => self.pin(&step)?,
                // A linked worktree's `.git` is a file: it leads elsewhere, and must not lead anywhere else.
                _ => {
                    self.cover(&step.found, true)?;
                    stands.existed = true;
                    if step.is_last && place.is_settings() {
                        let folder = self.folder_of(&step)?;
                        stands.settings =
                            git_folder::old_settings(&folder, &step.name).map(Rc::new);
                    }
                }
            }
        }
        Ok(stands)
    }

    /// Keeps a folder on the way where it is. Not one with a writable root in it: that has been opened by the old way.
    fn pin(&self, step: &Step) -> io::Result<()> {
        let mut at = step.at();
        at.push(b'/');
        let is_above = self.places.borrow().iter().any(|place| place.path.root.0.starts_with(&at));
        if is_above { Ok(()) } else { self.cover(&step.found, false) }
    }

    fn cover(&self, found: &OwnedFd, read_only: bool) -> io::Result<()> {
        if self.mounts { cover(found, read_only) } else { Ok(()) }
    }

    /// A file worker has been started, when all stood like this.
    pub fn worker_started(&self, start: Start) {
        self.at_worker.borrow_mut().get_or_insert(start);
    }

    /// The cell ends, and nobody is left to hear of it: what the file worker wrote that only repositories make matter.
    pub fn end(&self) {
        if let Some(Start(stood)) = self.at_worker.take() {
            let is_led = self.places();
            let led = stood.into_iter().zip(is_led.iter());
            let led = led
                .map(|(stood, place)| AtStart { existed: stood.existed || !place.is_led, ..stood });
            self.sweep(&Start(led.collect()));
        }
    }

    /// Puts aside what has been planted since a call started. What cannot be put aside is named as well.
    pub fn sweep(&self, start: &Start) -> Swept {
        let mut swept = Swept::default();
        self.sweep_places(start, &mut swept);
        self.sweep_nested(&mut swept);
        swept
    }

    /// The same, of the protected paths themselves.
    pub fn sweep_places(&self, start: &Start, swept: &mut Swept) {
        let all = self.places();
        let places = all.iter().zip(may_exist(&all)).zip(&start.0);
        for ((place, _), stood) in places.filter(|((_, may_exist), _)| *may_exist) {
            if self.sweep_one(place, stood, swept).is_err() {
                swept.failed(whole(&place.path));
            }
        }
    }

    /// The same, of repositories anywhere below.
    pub fn sweep_nested(&self, swept: &mut Swept) {
        self.nested.iter().for_each(|nested| nested.sweep(swept));
    }

    fn sweep_one(&self, place: &Place, stood: &AtStart, swept: &mut Swept) -> io::Result<()> {
        for step in place.way(&self.root) {
            let at = step.at();
            let link = stood.links.iter().find(|(path, _)| *path == at).map(|(_, link)| *link);
            let is_link = step.kind() == SFlag::S_IFLNK;
            match link {
                Some(link) if is_link && link == step.unchanged() => continue,
                // What led on when the call started has gone.
                Some(_) => return self.put_aside(&step, swept),
                None => {}
            }
            if step.kind() == SFlag::S_IFDIR && !step.is_last {
                continue;
            }
            if stood.existed {
                // Every folder on the way is a mount point, and so was this: inside, nobody can put anything else in its place, unless
                // somebody outside took it away. That may have been another session, which found it to be planted: whatever stands
                // here now may be this call's.
                if !self.mounts || step.is_mount_root()? {
                    return Ok(());
                }
                swept.replaced(at);
            }
            // A link or a file in the place of a folder leads whoever follows it to what lies elsewhere.
            if is_link || !step.is_last {
                return self.put_aside(&step, swept);
            }
            let folder = self.folder_of(&step)?;
            let before = stood.settings.as_ref().map_or(b"".as_slice(), |settings| settings);
            if !is_harmless(&place.path, &folder, &step, before)? {
                return self.put_aside(&step, swept);
            }
            return sweep_hooks(&place.path, &folder, &step, swept);
        }
        Ok(())
    }

    fn put_aside(&self, step: &Step, swept: &mut Swept) -> io::Result<()> {
        swept.put_aside(self.folder_of(step)?, &step.name, &step.folder);
        Ok(())
    }

    fn folder_of(&self, step: &Step) -> io::Result<OwnedFd> {
        mount::open_path_beneath(self.root.as_fd(), &relative(&Bytes(step.folder.clone()))?)
    }
}

/// Of each path, whether its first component exists. A root with few names in it is read once, instead of being asked for
/// every one of some thirty.
fn may_exist(all: &[Rc<Place>]) -> Vec<bool> {
    let mut may_exist = Vec::with_capacity(all.len());
    for places in all.chunk_by(|one, next| Arc::ptr_eq(&one.base, &next.base)) {
        let start = may_exist.len();
        may_exist.resize(start + places.len(), false);
        let (Some(found), Some(first)) = (may_exist.get_mut(start..), places.first()) else {
            continue;
        };
        let mut names = 0;
        let was_read = places.len() > FEW
            && open_to_read(&first.base).is_ok_and(|folder| {
                process::each_name(folder.as_fd(), &mut |name| {
                    for (found, place) in found.iter_mut().zip(places) {
                        *found |= place.first() == Some(name);
                    }
                    names += 1;
                    names <= NAMES_MAX
                })
            });
        if !was_read {
            found.iter_mut().zip(places).for_each(|(found, place)| *found = place.may_exist());
        }
    }
    may_exist
}

/// In a folder of git hooks, everything but the samples that `git init` puts there.
fn sweep_hooks(
    path: &ProtectedPath,
    folder: &OwnedFd,
    step: &Step,
    swept: &mut Swept,
) -> io::Result<()> {
    if path.relative.0 != b".git/hooks" {
        return Ok(());
    }
    match git_folder::live_hooks(folder, &step.name) {
        Ok(Some((hooks, planted))) => {
            let here = [&step.at(), b"/".as_slice()].concat();
            planted.iter().for_each(|name| swept.put_aside(&hooks, name, &here));
        }
        // One that cannot be read now can be made readable again.
        Ok(None) | Err(_) => swept.put_aside(folder, &step.name, &step.folder),
    }
    Ok(())
}

/// A second description of a folder: one that is open as a place alone cannot be read, and readers do not share their position.
fn open_to_read(folder: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(openat(folder, c".", flags, Mode::empty())?)
}

/// Makes it a mount point of its own, unless it is one.
fn cover(found: &OwnedFd, read_only: bool) -> io::Result<()> {
    if mount::path_info(found.as_fd())?.is_mount_root {
        return Ok(());
    }
    let tree = mount::clone_tree(found.as_fd(), c"")?;
    if read_only {
        mount::set_attributes(tree.as_fd(), MountAttributes::READ_ONLY, true)?;
    }
    mount::attach(tree.as_fd(), found.as_fd())
}

/// One for each writable root in which a git folder is protected.
fn nested(places: &[Rc<Place>], view: &Rc<OwnedFd>, mounts: bool) -> Vec<Nested> {
    let mut roots: Vec<&Rc<Place>> = Vec::new();
    for place in places {
        let is_git = place.components.first().is_some_and(|name| name.as_c_str() == c".git");
        if is_git && roots.iter().all(|root| root.path.root != place.path.root) {
            roots.push(place);
        }
    }
    let is_other =
        |names: &Vec<CString>| names.first().is_some_and(|first| first.as_c_str() != c".git");
    let others = |root: &Bytes| -> Vec<Vec<CString>> {
        let places = places.iter().filter(|place| place.path.root == *root);
        places.map(|place| place.components.clone()).filter(is_other).collect()
    };
    roots
        .into_iter()
        .map(|place| {
            let root = &place.path.root;
            let own = places.iter().filter(|place| place.path.root == *root);
            let own = own.filter_map(|place| match place.components.as_slice() {
                [first, name] if first.as_c_str() == c".git" => Some(name.clone()),
                _ => None,
            });
            let (base, view) = (Arc::clone(&place.base), Rc::clone(view));
            Nested::new(base, view, root.0.clone(), own.collect(), others(root), mounts)
        })
        .collect()
}

/// What `git init` and `git clone` make, and nothing else: a folder of hooks (whose content is looked at by itself), and
/// settings that run nothing.
fn is_harmless(
    path: &ProtectedPath,
    folder: &OwnedFd,
    step: &Step,
    before: &[u8],
) -> io::Result<bool> {
    let is_folder = step.kind() == SFlag::S_IFDIR;
    match path.relative.0.as_slice() {
        b".git/hooks" => Ok(is_folder),
        b".git/config" if !is_folder => {
            git_folder::is_harmless_config(folder, &step.name, b".git", before)
        }
        _ => Ok(false),
    }
}

fn components(path: &[u8]) -> Vec<CString> {
    path.split(|&byte| byte == b'/')
        .filter(|component| !matches!(*component, b"" | b"."))
        .filter_map(|component| CString::new(component).ok())
        .collect()
}

fn whole(path: &ProtectedPath) -> Bytes {
    Bytes([path.root.0.as_slice(), b"/", &path.relative.0].concat())
}

fn relative(path: &Bytes) -> io::Result<CString> {
    let start = path.0.iter().take_while(|&&byte| byte == b'/').count();
    let rest = path.0.get(start..).unwrap_or_default();
    Ok(CString::new(if rest.is_empty() { b"." } else { rest })?)
}
