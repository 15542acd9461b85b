use std::path::{Path, PathBuf};

/// Who knows where links lead: rules look at no file themselves.
pub trait Links {
    /// The path with every link on it followed, as far as it exists; `None` where that is the path itself. `..` means what it means to the
    /// kernel: it is taken behind the links before it.
    fn lead(&self, path: &Path) -> Option<PathBuf>;

    /// Where the links lead that lie in this folder.
    fn in_folder(&self, folder: &Path) -> Vec<PathBuf>;
}

/// Nobody is asked: every path is what it is written as.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unfollowed;

impl Links for Unfollowed {
    fn lead(&self, _: &Path) -> Option<PathBuf> {
        None
    }

    fn in_folder(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}
