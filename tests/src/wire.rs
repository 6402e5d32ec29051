use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::must::must;

/// A network namespace (network_namespaces(7)) that one cable leads to, and
/// nothing leads on from: a host behind it has no route to anywhere else.
///
/// Where there may be none it cannot be had. When this is dropped the cable is
/// gone, and the namespace with the last process in it.
#[derive(Debug)]
pub struct Wire {
    name: String,
    here: String,
    there: String,
    /// Holds the namespace.
    holder: Child,
}

impl Wire {
    /// Lays one; `None` without root, ip(8) or veth devices.
    #[must_use]
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id() * 8 + NEXT.fetch_add(1, Ordering::Relaxed)) % 16_384;
        let (high, low) = (number / 64, number % 64 * 4);
        let holder = Command::new("/usr/bin/unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut wire = Self {
            name: format!("ollie{number}"),
            here: format!("10.213.{high}.{}", low + 1),
            there: format!("10.213.{high}.{}", low + 2),
            holder: holder.ok()?,
        };
        let mut line = [0];
        let mut ready = wire.holder.stdout.take()?;
        std::io::Read::read_exact(&mut ready, &mut line).ok()?;
        wire.lay().then_some(wire)
    }

    fn lay(&self) -> bool {
        let (name, pid) = (&self.name, self.holder.id());
        let Self { here, there, .. } = self;
        ip(&format!("link add {name} type veth peer name {name}p"))
            && ip(&format!("link set {name}p netns {pid}"))
            && ip(&format!("addr add {here}/30 dev {name}"))
            && ip(&format!("link set {name} up"))
            && self.inside(&format!("addr add {there}/30 dev {name}p"))
            && self.inside(&format!("link set {name}p up"))
    }

    /// The address at its other end.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.there
    }

    /// The namespace, for nsenter(1).
    #[must_use]
    pub fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// From now on every packet has the address of nobody, in both directions;
    /// or all is well again.
    ///
    /// # Panics
    /// If ip(8) fails.
    pub fn lose_everything(&self, lost: bool) {
        let name = &self.name;
        let (there, here) = (&self.there, &self.here);
        let changed = if lost {
            let nobody = "lladdr 02:00:00:00:00:01 nud permanent";
            ip(&format!("neigh replace {there} dev {name} {nobody}"))
                && self.inside(&format!("neigh replace {here} dev {name}p {nobody}"))
        } else {
            ip(&format!("neigh del {there} dev {name}"))
                && self.inside(&format!("neigh del {here} dev {name}p"))
        };
        assert!(changed, "ip neigh fails");
    }

    fn inside(&self, arguments: &str) -> bool {
        let status = Command::new("/usr/bin/nsenter")
            .arg(format!("--net={}", self.namespace()))
            .arg("ip")
            .args(arguments.split(' '))
            .status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Its other end goes with it.
        ip(&format!("link del {}", self.name));
        drop(self.holder.stdin.take());
        must(self.holder.wait(), "wait for the namespace");
    }
}

fn ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    status.is_ok_and(|status| status.success())
}
