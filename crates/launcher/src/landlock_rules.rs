//! A Landlock ruleset, by the `landlock` crate. Everything is required: what the kernel cannot handle is a failure, never
//! silently left out.

use crate::server::failure;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, Scope,
};
use std::io;
use std::os::fd::OwnedFd;
use stockade_plan::{Bytes, LandlockPlan, LandlockRule, Stage, StageFailure};

/// Builds the ruleset, inside the finished view.
pub fn build(plan: &LandlockPlan) -> Result<OwnedFd, StageFailure> {
    let whole = |error: String| {
        failure(Stage::LandlockRuleset, &io::Error::other(error), Bytes::default())
    };
    let abi = abi_of(plan.abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .map_err(|error| whole(error.to_string()))?;
    if abi >= ABI::V6 {
        // No abstract sockets and no signals out of the domain.
        ruleset =
            ruleset.scope(Scope::from_all(abi)).map_err(|error| whole(error.to_string()))?;
    }
    let mut created = ruleset.create().map_err(|error| whole(error.to_string()))?;
    for rule in &plan.rules {
        let at_rule = |error: String| {
            failure(Stage::LandlockRuleset, &io::Error::other(error), rule.path.clone())
        };
        let Ok(path) = PathFd::new(rule.path.as_path()) else { continue };
        let is_folder = rule.path.as_path().is_dir();
        let rights = rights(rule, abi, is_folder);
        created = created
            .add_rule(PathBeneath::new(path, rights))
            .map_err(|error| at_rule(error.to_string()))?;
    }
    Option::<OwnedFd>::from(created).ok_or_else(|| whole("the kernel made no ruleset".into()))
}

fn rights(rule: &LandlockRule, abi: ABI, is_folder: bool) -> BitFlags<AccessFs> {
    let mut rights = BitFlags::EMPTY;
    if rule.list {
        rights |= AccessFs::ReadDir;
    }
    if rule.read {
        rights |= AccessFs::from_read(abi);
    }
    if rule.write {
        rights |= AccessFs::from_write(abi) & !AccessFs::IoctlDev;
    }
    if rule.ioctl {
        rights |= AccessFs::from_all(abi) & AccessFs::IoctlDev;
    }
    if is_folder { rights } else { rights & AccessFs::from_file(abi) }
}

fn abi_of(number: i32) -> ABI {
    match number {
        i32::MIN..=1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        // Newer ABIs add nothing that this crate handles yet; a newer kernel accepts an older ruleset.
        _ => ABI::V7,
    }
}
