//! `policy show`: every rule with its origin.

use std::fmt;
use std::path::Path;

use crate::{Layer, Policy};

/// A path as text, control characters shown: a file name must not be able to
/// repaint the terminal of the person who decides about it.
pub(crate) fn visible(path: &Path) -> String {
    let mut out = String::new();
    for c in path.to_string_lossy().chars() {
        let repaints = c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}' | '\u{feff}');
        if repaints {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "profile {}, working directory {}",
            self.profile,
            visible(&self.cwd)
        )?;
        writeln!(f, "\nfilesystem")?;
        for grant in &self.grants {
            writeln!(
                f,
                "  {:<4} {}",
                grant.access.word(),
                line(&grant.path, &grant.written)
            )?;
            writeln!(f, "         {}", grant.origin)?;
        }
        writeln!(
            f,
            "\nnetwork\n  {} ({})",
            self.network.value, self.network.origin
        )?;
        writeln!(f, "\nunix_sockets")?;
        if self.sockets.is_empty() {
            writeln!(f, "  none")?;
        }
        for socket in &self.sockets {
            writeln!(
                f,
                "  {} ({})",
                line(&socket.path, &socket.written),
                socket.origin
            )?;
        }
        if !self.dropped.is_empty() {
            writeln!(f, "\ndropped")?;
        }
        for drop in &self.dropped {
            writeln!(f, "  {} ({})", line(&drop.path, &drop.written), drop.origin)?;
        }
        writeln!(f, "\nenv")?;
        for name in &self.env {
            writeln!(f, "  {} ({})", name.value, name.origin)?;
        }
        for name in &self.env_dropped {
            writeln!(f, "  not {} ({})", name.value, name.origin)?;
        }
        writeln!(f, "\nlimits")?;
        for (name, limit) in self.limits.named() {
            if let Some(limit) = limit {
                writeln!(f, "  {name} {} ({})", limit.value, limit.origin)?;
            }
        }
        writeln!(
            f,
            "\nbest_effort {} ({})",
            self.best_effort.value, self.best_effort.origin
        )?;
        if !self.skipped.is_empty() {
            writeln!(f, "\nnot on this host")?;
        }
        for skipped in &self.skipped {
            writeln!(f, "  {skipped}")?;
        }
        if !self.notes.is_empty() {
            writeln!(f, "\nnotes")?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}

fn line(path: &Path, written: &str) -> String {
    if Path::new(written) == path {
        visible(path)
    } else {
        format!("{}  ({})", visible(path), visible(Path::new(written)))
    }
}

/// Whether a rule of this layer that does not apply is worth a note in every
/// result. A profile lists what may be there; a person names what is.
pub(crate) fn is_personal(layer: Layer) -> bool {
    matches!(layer, Layer::User | Layer::Project | Layer::Session)
}
