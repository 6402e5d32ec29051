//! A machine for the filter, and what the filter answers on it.

use super::assembler::{
    AND, Answer, Instruction, JUMP, JUMP_ANY_BIT, JUMP_AT_LEAST, JUMP_EQUAL, LOAD, RETURN,
};
use super::filter::{Gated, Processor, Rules};
use super::table::{EACCES, EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT, REFUSALS};
use crate::Network;

const X86: u32 = 0xc000_003e;
const ARM: u32 = 0xc000_00b7;

fn filter(processor: Processor, network: &Network) -> Vec<Instruction> {
    let gated = Gated::Nothing;
    super::filter::filter(processor, Rules { network, gated })
}

fn gated(gated: Gated, number: u32, args: [u64; 6]) -> [u32; 2] {
    [(Processor::X86_64, X86), (Processor::Aarch64, ARM)].map(|(processor, arch)| {
        // connect, socket, socketpair of asm-generic/unistd.h.
        let number = match (processor, number) {
            (Processor::Aarch64, 42) => 203,
            (Processor::Aarch64, 41) => 198,
            (Processor::Aarch64, 53) => 199,
            _ => number,
        };
        let rules = Rules {
            network: &Network::Unrestricted,
            gated,
        };
        let program = super::filter::filter(processor, rules);
        run(&program, arch, number, args)
    })
}

#[test]
fn a_gate_is_asked_for_connections_and_pairs_and_no_unix_datagram_socket_exists() {
    // SECCOMP_RET_USER_NOTIF of linux/seccomp.h.
    let ask = 0x7fc0_0000;
    assert_eq!(answer(&Network::Unrestricted, 42, [0; 6]), ALLOW);
    let flags = 0x0008_0800u64;
    let refused = errno(EACCES);
    // SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET of bits/socket_type.h.
    for (whom, number, answers) in [
        (Gated::Connections, 41, [ALLOW, refused, refused, ALLOW]),
        (Gated::Connections, 53, [ALLOW, refused, refused, ALLOW]),
        (Gated::Pairs, 41, [ALLOW, refused, refused, ALLOW]),
        (Gated::Pairs, 53, [ALLOW, ask, refused, ALLOW]),
        (Gated::Nothing, 41, [ALLOW; 4]),
        (Gated::Nothing, 53, [ALLOW; 4]),
    ] {
        for (kind, answer) in [1, 2, 3, 5].into_iter().zip(answers) {
            for kind in [kind, kind | flags, kind | 1 << 32] {
                let args = [1, kind, 0, 0, 0, 0];
                let what = format!("{whom:?} {number} {kind:#x}");
                assert_eq!(gated(whom, number, args), [answer; 2], "{what}");
            }
        }
        let connect = if whom == Gated::Nothing { ALLOW } else { ask };
        assert_eq!(gated(whom, 42, [0; 6]), [connect; 2]);
        assert_eq!(gated(whom, 41, [2, 2, 0, 0, 0, 0]), [ALLOW; 2], "UDP");
        let family = gated(whom, 53, [2, 2, 0, 0, 0, 0]);
        assert_eq!(family, [errno(EAFNOSUPPORT); 2], "a pair of the internet");
    }
}

/// Runs a program as the kernel does (net/core/filter.c), and panics where the
/// kernel would refuse to load it.
fn run(program: &[Instruction], arch: u32, number: u32, args: [u64; 6]) -> u32 {
    let mut data = vec![];
    data.extend(number.to_le_bytes());
    data.extend(arch.to_le_bytes());
    data.extend(0u64.to_le_bytes());
    args.iter().for_each(|a| data.extend(a.to_le_bytes()));
    let (mut at, mut a) = (0usize, 0u32);
    loop {
        let step = program[at];
        at += 1;
        let mut jump = |holds: bool| at += usize::from(if holds { step.jt } else { step.jf });
        match step.code {
            LOAD => {
                let k = step.k as usize;
                assert!(k.is_multiple_of(4) && k < 64);
                a = u32::from_le_bytes(data[k..k + 4].try_into().unwrap());
            }
            AND => a &= step.k,
            JUMP_EQUAL => jump(a == step.k),
            JUMP_AT_LEAST => jump(a >= step.k),
            JUMP_ANY_BIT => jump(a & step.k != 0),
            JUMP => at += step.k as usize,
            RETURN => return step.k,
            other => panic!("no such instruction: {other:#x}"),
        }
    }
}

fn answer(network: &Network, number: u32, args: [u64; 6]) -> u32 {
    run(&filter(Processor::X86_64, network), X86, number, args)
}

fn tcp() -> Network {
    Network::Tcp {
        connect: [443].into(),
        bind: [].into(),
    }
}

const ALLOW: u32 = 0x7fff_0000;

fn errno(errno: u16) -> u32 {
    Answer::Errno(errno).value()
}

#[test]
fn every_row_of_the_table_is_answered_on_both_processors() {
    for (processor, arch) in [(Processor::X86_64, X86), (Processor::Aarch64, ARM)] {
        let program = filter(processor, &Network::Unrestricted);
        assert!(program.len() < 4096, "BPF_MAXINSNS");
        for row in REFUSALS {
            let number = match processor {
                Processor::X86_64 => row.x86_64,
                Processor::Aarch64 => row.aarch64,
            };
            if let Some(number) = number {
                assert_eq!(
                    run(&program, arch, number, [0; 6]),
                    errno(row.errno),
                    "{}",
                    row.name
                );
            }
        }
    }
}

/// The table again, read from top to bottom, which the tree must equal for
/// every number there is.
#[test]
fn no_other_system_call_is_touched() {
    let special = [56, 272, 16, 41, 53];
    for (processor, arch) in [(Processor::X86_64, X86), (Processor::Aarch64, ARM)] {
        let program = filter(processor, &Network::Unrestricted);
        for number in
            (0..1024u32).filter(|n| processor == Processor::Aarch64 || !special.contains(n))
        {
            let row = REFUSALS.iter().find(|r| {
                Some(number)
                    == match processor {
                        Processor::X86_64 => r.x86_64,
                        Processor::Aarch64 => r.aarch64,
                    }
            });
            // With zero arguments every call of the second kind is allowed,
            // but a socket of family 0.
            let family_zero = processor == Processor::Aarch64 && [198, 199].contains(&number);
            let expected = match row {
                Some(row) => errno(row.errno),
                None if family_zero => errno(EAFNOSUPPORT),
                None => ALLOW,
            };
            assert_eq!(
                run(&program, arch, number, [0; 6]),
                expected,
                "{processor:?} {number}"
            );
        }
    }
}

#[test]
fn a_number_is_decided_in_few_steps() {
    // The kernel runs the filter for every number when it is loaded, to find
    // out which are always allowed (seccomp_cache_prepare), so a long way
    // costs every spawn.
    for processor in [Processor::X86_64, Processor::Aarch64] {
        assert!(super::filter::depth(processor) <= 8, "{processor:?}");
    }
}

#[test]
fn what_every_program_does_is_allowed() {
    // read, write, openat, mmap, execve, fork, wait4, ptrace, close_range,
    // seccomp, prctl, capset, landlock_restrict_self, memfd_create.
    let x86 = [0, 1, 257, 9, 59, 57, 61, 101, 436, 317, 157, 126, 446, 319];
    let arm = [63, 64, 56, 222, 221, 260, 117, 436, 277, 167, 91, 446, 279];
    for network in [Network::Unrestricted, Network::None, tcp()] {
        for number in x86 {
            assert_eq!(answer(&network, number, [0; 6]), ALLOW, "x86_64 {number}");
        }
        let program = filter(Processor::Aarch64, &network);
        for number in arm {
            assert_eq!(
                run(&program, ARM, number, [0; 6]),
                ALLOW,
                "aarch64 {number}"
            );
        }
    }
}

#[test]
fn other_instruction_sets_and_x32_do_not_pass() {
    let program = filter(Processor::X86_64, &Network::Unrestricted);
    // AUDIT_ARCH_I386, where 165 is mount's neighbour and 5 is open.
    assert_eq!(run(&program, 0x4000_0003, 5, [0; 6]), 0x8000_0000);
    assert_eq!(run(&program, X86, 0x4000_0000 + 165, [0; 6]), errno(ENOSYS));
    assert_eq!(run(&program, X86, u32::MAX, [0; 6]), errno(ENOSYS));
    let program = filter(Processor::Aarch64, &Network::Unrestricted);
    assert_eq!(run(&program, 0x4000_0028, 5, [0; 6]), 0x8000_0000);
}

#[test]
fn namespaces_are_refused_and_threads_are_not() {
    let any = Network::Unrestricted;
    let clone = |flags: u64| answer(&any, 56, [flags, 0, 0, 0, 0, 0]);
    // What glibc passes for a thread and for fork: SIGCHLD and tids.
    assert_eq!(clone(0x003d_0f00), ALLOW);
    assert_eq!(clone(0x0120_0011), ALLOW);
    for flag in [
        0x0002_0000,
        0x0200_0000,
        0x0400_0000,
        0x0800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000u64,
    ] {
        assert_eq!(clone(flag | 17), errno(EPERM), "{flag:#x}");
        assert_eq!(
            answer(&any, 272, [flag, 0, 0, 0, 0, 0]),
            errno(EPERM),
            "{flag:#x}"
        );
    }
    // CLONE_FILES is no namespace; CLONE_NEWTIME is one.
    assert_eq!(answer(&any, 272, [0x400, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(answer(&any, 272, [0x80, 0, 0, 0, 0, 0]), errno(EPERM));
}

#[test]
fn typing_into_a_terminal_is_refused_whatever_the_upper_half_says() {
    let ioctl = |request: u64| answer(&Network::Unrestricted, 16, [0, request, 0, 0, 0, 0]);
    assert_eq!(ioctl(0x5412), errno(EPERM));
    assert_eq!(ioctl(0x0000_0001_0000_5412), errno(EPERM));
    assert_eq!(ioctl(0xffff_ffff_0000_541c), errno(EPERM));
    // TCGETS and TIOCGWINSZ.
    assert_eq!(ioctl(0x5401), ALLOW);
    assert_eq!(ioctl(0x5413), ALLOW);
}

#[test]
fn sockets_are_those_that_the_policy_knows() {
    let cloexec = 0x0008_0000u64;
    let (any, none, tcp) = (Network::Unrestricted, Network::None, tcp());
    for (what, args, on_any, on_none, on_tcp) in [
        ("unix", [1, 1 | cloexec, 0], ALLOW, ALLOW, ALLOW),
        ("tcp", [2, 1 | cloexec, 0], ALLOW, errno(EACCES), ALLOW),
        ("tcp6", [10, 1, 6], ALLOW, errno(EACCES), ALLOW),
        ("udp", [2, 2, 17], ALLOW, errno(EACCES), errno(EACCES)),
        ("ping", [2, 2, 1], ALLOW, errno(EACCES), errno(EACCES)),
        ("mptcp", [2, 1, 262], ALLOW, errno(EACCES), errno(EACCES)),
        (
            "mptcp, upper half",
            [2, 1, 262 | 1 << 32],
            ALLOW,
            errno(EACCES),
            errno(EACCES),
        ),
        (
            "sctp",
            [2, 1, 132],
            errno(EPROTONOSUPPORT),
            errno(EACCES),
            errno(EACCES),
        ),
        (
            "raw",
            [2, 3, 255],
            errno(EPERM),
            errno(EACCES),
            errno(EACCES),
        ),
        (
            "raw6, close on exec",
            [10, 3 | cloexec, 58],
            errno(EPERM),
            errno(EACCES),
            errno(EACCES),
        ),
        (
            "packet",
            [17, 3, 768],
            errno(EAFNOSUPPORT),
            errno(EAFNOSUPPORT),
            errno(EAFNOSUPPORT),
        ),
        (
            "vsock",
            [40, 1, 0],
            errno(EAFNOSUPPORT),
            errno(EAFNOSUPPORT),
            errno(EAFNOSUPPORT),
        ),
        (
            "alg",
            [38, 5, 0],
            errno(EAFNOSUPPORT),
            errno(EAFNOSUPPORT),
            errno(EAFNOSUPPORT),
        ),
        ("route", [16, 3 | cloexec, 0], ALLOW, ALLOW, ALLOW),
        (
            "audit",
            [16, 3, 9],
            errno(EPROTONOSUPPORT),
            errno(EPROTONOSUPPORT),
            errno(EPROTONOSUPPORT),
        ),
        (
            "netfilter",
            [16, 3, 12],
            errno(EPROTONOSUPPORT),
            errno(EPROTONOSUPPORT),
            errno(EPROTONOSUPPORT),
        ),
    ] {
        let args = [args[0], args[1], args[2], 0, 0, 0];
        assert_eq!(answer(&any, 41, args), on_any, "{what}, unrestricted");
        assert_eq!(answer(&none, 41, args), on_none, "{what}, none");
        assert_eq!(answer(&tcp, 41, args), on_tcp, "{what}, tcp");
    }
    assert_eq!(answer(&none, 53, [1, 1, 0, 0, 0, 0]), ALLOW, "socketpair");
    assert_eq!(
        answer(&any, 53, [30, 1, 0, 0, 0, 0]),
        errno(EAFNOSUPPORT),
        "TIPC pair"
    );
}

#[test]
fn a_send_that_connects_is_refused_where_ports_are_listed() {
    let fast = 0x2000_0000u64;
    for (number, args) in [
        (44, [0, 0, 0, fast, 0, 0]),
        (46, [0, 0, fast | 0x40, 0, 0, 0]),
        (307, [0, 0, 0, fast, 0, 0]),
    ] {
        assert_eq!(answer(&tcp(), number, args), errno(EPERM), "{number}");
        assert_eq!(
            answer(&Network::Unrestricted, number, args),
            ALLOW,
            "{number}"
        );
        assert_eq!(
            answer(&tcp(), number, [0, 0, 0, 0, 0, 0]),
            ALLOW,
            "{number}"
        );
    }
}
