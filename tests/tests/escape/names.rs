//! Names are resolved under the default profile as glibc does it: by a server
//! of UDP and, where an answer is too long, of TCP. The server is the test's
//! own, in network and mount namespaces in which nothing else is.

use std::path::Path;
use std::process::{Command, Stdio};

use ollie_tests::{User, World, gap};

/// `$1` is the directory of the files, the rest runs there.
const SCRIPT: &str = r#"set -e
ip link set lo up
# Hosts with nothing but loopback are given no IPv4 addresses (AI_ADDRCONFIG).
ip addr add 198.51.100.1/32 dev lo
mount --bind $1/resolv.conf "$(readlink -f /etc/resolv.conf)"
mount --bind $1/nsswitch.conf /etc/nsswitch.conf
# That of an earlier run says ready as well.
rm -f $1/log
/usr/bin/python3 $1/names.py $1/log &
server=$!
trap 'kill $server' EXIT
for i in $(seq 200); do grep -q ready $1/log 2>/dev/null && break; sleep 0.05; done
grep -q ready $1/log
shift
"$@"
"#;

fn resolved(world: &World, options: &[&str], name: &str) -> (Option<i32>, Vec<String>, String) {
    let at = world.base().join("names");
    let uid = world.user().uid().to_string();
    let mut command = Command::new("/usr/bin/timeout");
    command
        .args(["60", "/usr/bin/unshare", "--net", "--mount", "sh", "-c"])
        .args([SCRIPT, "sh"])
        .arg(&at)
        .args(["/usr/bin/setpriv", "--clear-groups", "--reuid"])
        .args([&uid, "--regid", &uid])
        .arg(world.base().join("bin/olliesrv"))
        .arg("exec")
        .args(options)
        .args(["--", "getent", "ahostsv4", name])
        .env_clear()
        .env("PATH", world.path())
        .env("HOME", world.home())
        .env("XDG_RUNTIME_DIR", world.base().join("run"))
        .env("TMPDIR", world.base().join("tmp"))
        .current_dir(world.project())
        .stdin(Stdio::null());
    let end = command.output().unwrap();
    let out = String::from_utf8(end.stdout).unwrap();
    let mut addresses: Vec<_> = out
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    addresses.dedup();
    addresses.sort();
    addresses.dedup();
    let err = String::from_utf8_lossy(&end.stderr).into_owned();
    let log = std::fs::read_to_string(at.join("log")).unwrap();
    (end.status.code(), addresses, format!("{log}\n{err}"))
}

#[test]
fn names_are_resolved_by_udp_and_where_an_answer_is_long_by_tcp() {
    if User::root("names").is_none() {
        return;
    }
    for program in ["unshare", "setpriv", "python3"] {
        if !Path::new("/usr/bin").join(program).exists() {
            return gap("names", &format!("needs {program}"));
        }
    }
    for user in User::each("names, as root") {
        let world = World::new(user);
        world.write("names/names.py", include_str!("names.py"));
        world.write(
            "names/resolv.conf",
            "nameserver 127.0.0.1\noptions attempts:1\n",
        );
        world.write("names/nsswitch.conf", "hosts: dns\n");
        let (status, addresses, log) = resolved(&world, &[], "small.test");
        assert_eq!(
            (status, addresses),
            (Some(0), vec!["192.0.2.1".to_owned()]),
            "{log}"
        );
        assert!(!log.contains("tcp"), "{log}");
        let (status, addresses, log) = resolved(&world, &[], "big.test");
        assert_eq!((status, addresses.len()), (Some(0), 100), "{log}");
        assert!(
            log.contains("udp big.test") && log.contains("tcp big.test"),
            "{log}"
        );
        // It is the network that does it.
        let (status, addresses, log) = resolved(&world, &["--profile", "strict"], "small.test");
        assert_eq!((status == Some(0), addresses.len()), (false, 0), "{log}");
        assert!(!log.contains("small.test\n"), "{log}");
    }
}
