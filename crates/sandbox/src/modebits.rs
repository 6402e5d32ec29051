//! Whether the host's own mode bits allow something, so that a policy is not
//! blamed for what `chmod` would mend. (path_resolution(7))

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Identity, Operation};

/// Whether mode bits alone allow `operation`; access control lists and file
/// attributes are not looked at. A path that cannot be examined counts as not
/// allowed.
pub(crate) fn allow(who: &Identity, operation: Operation, path: &Path) -> bool {
    let searchable = path
        .ancestors()
        .skip(1)
        .all(|dir| std::fs::metadata(dir).is_ok_and(|m| has(who, &m, 0o1)));
    if !searchable {
        return false;
    }
    let parent_writable = || {
        let parent = path.parent().map(std::fs::metadata);
        matches!(parent, Some(Ok(meta)) if has(who, &meta, 0o3))
    };
    match (operation, std::fs::metadata(path)) {
        (Operation::Create | Operation::Remove | Operation::Bind, _) => parent_writable(),
        (Operation::Write, Err(_)) => parent_writable(),
        (_, Err(_)) => false,
        (Operation::Read, Ok(meta)) => has(who, &meta, 0o4),
        (Operation::Write | Operation::Connect, Ok(meta)) => has(who, &meta, 0o2),
        (Operation::Execute, Ok(meta)) => has(who, &meta, 0o1),
    }
}

/// Owner bits for the owner, group bits for the group, else the others'. Root
/// is no exception: a tool of root's has no CAP_DAC_OVERRIDE.
fn has(who: &Identity, meta: &Metadata, bits: u32) -> bool {
    let shift = if meta.uid() == who.uid {
        6
    } else if meta.gid() == who.gid || who.groups.contains(&meta.gid()) {
        3
    } else {
        0
    };
    (meta.mode() >> shift) & bits == bits
}
