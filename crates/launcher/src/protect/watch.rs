//! What a call plants under a protected name while it runs on, as a background task does for hours, is put aside at once and not only
//! at its end. The kernel tells of changes where protected names lie (inotify(7)); what lies in repositories below is looked at from
//! time to time. A call that has ended within a second has cost nothing, and one within six seconds next to nothing.

use super::Protected;
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a call has to run to be watched.
const FIRST: Duration = Duration::from_secs(1);
/// How often repositories below are looked at, if that is quick; for the first time so long after the protected paths themselves.
const INTERVAL: Duration = Duration::from_secs(5);
/// Looking takes at most this part of the time.
const SHARE: u32 = 50;
/// How long news wait after a look, so that a program which makes many costs no more.
const REST: Duration = Duration::from_millis(50);

/// What is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The protected paths themselves.
    Places,
    /// Repositories anywhere below as well.
    All,
}

/// The watch over the calls that run.
#[derive(Default)]
pub struct Watch {
    events: Option<Events>,
    /// When to look next, and at what; `None` while no call runs.
    due: Option<(Instant, Extent)>,
    /// Until when news wait.
    rest: Option<Instant>,
}

struct Events {
    inotify: Inotify,
    /// The names that matter in each folder.
    names: HashMap<WatchDescriptor, HashSet<OsString>>,
}

impl Watch {
    /// A call has started.
    pub fn started(&mut self) {
        self.due.get_or_insert_with(|| (Instant::now() + FIRST, Extent::Places));
    }

    /// No call runs any more.
    pub fn over(&mut self) {
        *self = Self::default();
    }

    /// How long to wait for news, for poll(2).
    pub fn timeout_ms(&self) -> i32 {
        let now = Instant::now();
        let due = self.due.map(|(due, _)| due);
        let until = [due, self.rest.filter(|rest| *rest > now)].into_iter().flatten().min();
        until.map_or(-1, |until| {
            // Rounded up: it is not to be woken before.
            i32::try_from(until.saturating_duration_since(now).as_millis() + 1).unwrap_or(i32::MAX)
        })
    }

    /// What is readable when there are news, unless they are to wait.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        let rests = self.rest.is_some_and(|rest| rest > Instant::now());
        self.events.as_ref().filter(|_| !rests).map(|events| events.inotify.as_fd())
    }

    /// After waiting: what has to be looked at, if anything.
    pub fn extent(&mut self, has_news: bool) -> Option<Extent> {
        let due = self.due.filter(|(due, _)| *due <= Instant::now()).map(|(_, extent)| extent);
        let has_news = has_news && self.events.as_ref().is_some_and(Events::matter);
        due.or(has_news.then_some(Extent::Places))
    }

    /// It has been looked at, which began then. Folders that have come into being are watched from now on.
    pub fn looked(&mut self, extent: Extent, began: Instant, protected: &Protected) {
        let now = Instant::now();
        self.rest = Some(now + REST);
        if extent == Extent::All || self.events.is_none() {
            self.due = Some((now + INTERVAL.max((now - began) * SHARE), Extent::All));
        }
        if self.events.is_none() {
            // Without it, there are the looks from time to time, and the one at the end.
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
            self.events = inotify.map(|inotify| Events { inotify, names: HashMap::new() });
        }
        if let Some(events) = &mut self.events {
            events.watch(protected);
        }
    }
}

impl Events {
    fn watch(&mut self, protected: &Protected) {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        for (folder, names) in places(protected) {
            // One that is there already keeps its number.
            if let Ok(number) = self.inotify.add_watch(&folder, flags) {
                self.names.entry(number).or_default().extend(names);
            }
        }
    }

    /// Reads the news. True if one is about a name that matters, or some were lost.
    fn matter(&self) -> bool {
        let mut matter = false;
        loop {
            match self.inotify.read_events() {
                Ok(events) => matter |= events.iter().any(|event| self.matters(event)),
                Err(Errno::EINTR) => {}
                Err(_) => return matter,
            }
        }
    }

    fn matters(&self, event: &InotifyEvent) -> bool {
        let named =
            |name: &OsString| self.names.get(&event.wd).is_some_and(|names| names.contains(name));
        event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) || event.name.as_ref().is_some_and(named)
    }
}

/// Each folder on the way to a protected path, with the names in it that lead on.
fn places(protected: &Protected) -> HashMap<PathBuf, HashSet<OsString>> {
    let mut places: HashMap<PathBuf, HashSet<OsString>> = HashMap::new();
    for place in protected.places() {
        let mut folder = place.path.root.as_path().to_owned();
        for component in &place.components {
            let name = OsStr::from_bytes(component.to_bytes());
            let next = folder.join(name);
            places.entry(folder).or_default().insert(name.to_owned());
            folder = next;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use stockade_plan::ProtectedPath;

    fn protected(root: &std::path::Path) -> Protected {
        let paths = [".git/hooks", ".envrc"].map(|relative| ProtectedPath {
            root: root.into(),
            relative: std::path::Path::new(relative).into(),
        });
        Protected::new(paths.to_vec(), false).unwrap()
    }

    #[test] // spec 5.4
    fn news_of_a_protected_name_matter_also_in_a_folder_that_has_just_come_and_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let protected = protected(folder.path());
        let mut watch = Watch::default();
        assert_eq!((watch.timeout_ms(), watch.extent(true)), (-1, None), "no call runs");
        watch.started();
        assert!((1..=1001).contains(&watch.timeout_ms()));
        watch.looked(Extent::Places, Instant::now(), &protected);
        assert!(watch.fd().is_none(), "news wait for a moment");
        assert!(watch.timeout_ms() <= 51);

        fs::write(folder.path().join("other"), "x").unwrap();
        assert_eq!(watch.extent(true), None);
        fs::create_dir_all(folder.path().join(".git")).unwrap();
        assert_eq!(watch.extent(true), Some(Extent::Places));
        watch.looked(Extent::Places, Instant::now(), &protected);
        fs::create_dir_all(folder.path().join(".git/objects")).unwrap();
        assert_eq!(watch.extent(true), None);
        fs::create_dir_all(folder.path().join(".git/hooks")).unwrap();
        assert_eq!(watch.extent(true), Some(Extent::Places));
        watch.over();
        assert_eq!((watch.timeout_ms(), watch.fd().is_none()), (-1, true));
    }

    #[test] // spec 5.4
    fn what_lies_below_is_looked_at_from_time_to_time_and_less_often_where_that_takes_long() {
        let folder = tempfile::tempdir().unwrap();
        let protected = protected(folder.path());
        let mut watch = Watch { due: Some((Instant::now(), Extent::Places)), ..Watch::default() };
        assert_eq!(watch.extent(false), Some(Extent::Places));
        watch.looked(Extent::Places, Instant::now(), &protected);
        assert!(watch.due.is_some_and(|(_, extent)| extent == Extent::All));
        let began = Instant::now() - Duration::from_secs(2);
        watch.looked(Extent::All, began, &protected);
        assert_eq!(watch.extent(false), None);
        assert!(watch.due.unwrap().0 >= began + Duration::from_secs(100));
    }
}
