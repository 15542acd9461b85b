//! Where the path of a call leads when somebody is asked about it. The approval is of that place: a folder that is moved meanwhile, or
//! replaced by a link, must not take the call along (spec 2.2, 2.6).

use crate::caught::caught;
use crate::links::resolved;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use stockade_policy::{Policy, Variables};
use stockade_sandbox::file::{FileDone, FileOp, Fingerprint, Folder, Place};
use stockade_tools::{CallContext, FrozenInput, RegisteredTool};

/// The place of a call that has one. Looked for in the cell of the session's own policy; and where only `widened`, the policy under which the
/// call would run, shows it, on the host, whose paths are what can be granted: no cell is built for what nobody has granted yet.
pub(super) async fn of(
    tool: &RegisteredTool,
    input: &FrozenInput,
    context: &CallContext,
    widened: &Policy,
    variables: &Variables,
) -> Option<Place> {
    let path = caught(|| tool.tool().acts_on(input)).ok().flatten()?;
    let shows = |policy: &Policy| policy.access(&path, variables).is_ok_and(|access| access.read);
    if shows(widened) && !shows(&context.policy) {
        return Some(on_host(&path));
    }
    let op = FileOp::Locate { path: path.clone().into() };
    let located = match context.cell().await {
        Ok(cell) => cell.file(op, context.cancel.clone()).await,
        Err(error) => Err(error),
    };
    Some(match located {
        // The file tells all where there is one: a grant may show it in a folder that is another one in each cell.
        Ok(Ok(FileDone::Located(place))) if place.file.is_some() => Place { folder: None, ..place },
        Ok(Ok(FileDone::Located(place))) => place,
        // It leads nowhere. Should it lead somewhere by the time it runs, that is not what was approved.
        _ => nowhere(&path),
    })
}

fn nowhere(path: &Path) -> Place {
    Place { written: path.into(), path: path.into(), folder: None, file: None }
}

fn on_host(written: &Path) -> Place {
    let path = resolved(written);
    let deepest = path.ancestors().find_map(|folder| {
        let metadata = folder.symlink_metadata().ok().filter(|metadata| metadata.is_dir())?;
        Some((folder.components().count().saturating_sub(1), metadata))
    });
    let folder = deepest.map(|(depth, metadata)| Folder {
        depth: depth as u64,
        device: metadata.dev(),
        inode: metadata.ino(),
    });
    let file = path.symlink_metadata().ok().filter(|metadata| !metadata.is_dir());
    let file = file.map(|metadata| {
        let nanos = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Fingerprint {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mtime_ns: nanos(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    });
    let folder = folder.filter(|_| file.is_none());
    Place { written: written.into(), path: path.as_path().into(), folder, file }
}
