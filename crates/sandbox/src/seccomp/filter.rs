//! The program.

use super::assembler::{
    Answer, Assembler, Instruction, JUMP_ANY_BIT, JUMP_AT_LEAST, JUMP_EQUAL, Word,
};
use super::table::{EACCES, EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT, REFUSALS};
use crate::Network;

/// A processor whose system calls are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processor {
    X86_64,
    Aarch64,
}

/// The system calls whose arguments matter.
struct Numbers {
    /// AUDIT_ARCH_* of linux/audit.h.
    architecture: u32,
    clone: u32,
    unshare: u32,
    ioctl: u32,
    socket: u32,
    socketpair: u32,
    connect: u32,
    sendto: u32,
    sendmsg: u32,
    sendmmsg: u32,
    prlimit64: u32,
}

impl Processor {
    /// The one this program was built for.
    pub(crate) fn current() -> Option<Self> {
        if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    fn numbers(self) -> Numbers {
        match self {
            Self::X86_64 => Numbers {
                architecture: 0xc000_003e,
                clone: 56,
                unshare: 272,
                ioctl: 16,
                socket: 41,
                socketpair: 53,
                connect: 42,
                sendto: 44,
                sendmsg: 46,
                sendmmsg: 307,
                prlimit64: 302,
            },
            Self::Aarch64 => Numbers {
                architecture: 0xc000_00b7,
                clone: 220,
                unshare: 97,
                ioctl: 29,
                socket: 198,
                socketpair: 199,
                connect: 203,
                sendto: 206,
                sendmsg: 211,
                sendmmsg: 269,
                prlimit64: 261,
            },
        }
    }
}

/// __X32_SYSCALL_BIT: the second table of x86_64 has every call again under
/// other numbers, past any list.
const X32: u32 = 0x4000_0000;

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
const NEW_NAMESPACE: u32 = 0x7e02_0000;
/// CLONE_NEWTIME, which only unshare takes; in clone it is part of a signal.
const NEW_TIME: u32 = 0x80;

/// TIOCSTI types into a terminal as if the person did, TIOCLINUX pastes into
/// a console, TIOCCONS takes the console's output.
const TERMINAL_REQUESTS: [u32; 3] = [0x5412, 0x541c, 0x541d];

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const NETLINK_ROUTE: u32 = 0;
const SOCK_TYPE_MASK: u32 = 0xf;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_SEQPACKET: u32 = 5;
const IPPROTO_IP: u32 = 0;
const IPPROTO_TCP: u32 = 6;
/// ICMP, TCP, UDP, ICMPv6, UDP-Lite, MPTCP.
const USUAL_PROTOCOLS: [u32; 6] = [1, 6, 17, 58, 136, 262];
/// Connects inside a send, where Landlock's rule on connect is not asked.
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// What the filter depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) network: &'a Network,
    pub(crate) gated: Gated,
}

/// What a listener is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gated {
    /// Nothing: Landlock restricts pathname Unix sockets.
    Nothing,
    /// Connections.
    Connections,
    /// Connections, and pairs of Unix datagram sockets.
    Pairs,
}

/// The filter for one processor.
pub(crate) fn filter(processor: Processor, rules: Rules<'_>) -> Vec<Instruction> {
    let numbers = processor.numbers();
    let mut asm = Assembler::default();
    // A program for another instruction set numbers its calls differently.
    // There is no errno that would make it stop; the kernel's own page
    // (Documentation/userspace-api/seccomp_filter.rst) advises to kill.
    asm.load(Word::Architecture);
    asm.answer_unless(JUMP_EQUAL, numbers.architecture, Answer::KillProcess);
    asm.load(Word::Number);
    if processor == Processor::X86_64 {
        asm.answer_if(JUMP_AT_LEAST, X32, Answer::Errno(ENOSYS));
    }
    tree(&mut asm, &cases(processor, rules));
    asm.finish()
}

/// What happens to one system call.
struct Case<'a> {
    number: u32,
    /// Emits code that answers in every case.
    then: Box<dyn Fn(&mut Assembler) + 'a>,
}

/// All cases, by number.
fn cases<'a>(processor: Processor, rules: Rules<'a>) -> Vec<Case<'a>> {
    let numbers = processor.numbers();
    let mut cases: Vec<Case<'a>> = Vec::new();
    let mut case =
        |number, then: Box<dyn Fn(&mut Assembler) + 'a>| cases.push(Case { number, then });
    for row in REFUSALS {
        let number = match processor {
            Processor::X86_64 => row.x86_64,
            Processor::Aarch64 => row.aarch64,
        };
        if let Some(number) = number {
            case(number, Box::new(|asm| asm.answer(Answer::Errno(row.errno))));
        }
    }
    case(
        numbers.clone,
        Box::new(|asm| refuse_bits(asm, 0, NEW_NAMESPACE)),
    );
    case(
        numbers.unshare,
        Box::new(|asm| refuse_bits(asm, 0, NEW_NAMESPACE | NEW_TIME)),
    );
    case(numbers.ioctl, Box::new(terminal));
    case(numbers.socket, Box::new(move |asm| socket(asm, rules)));
    case(
        numbers.socketpair,
        Box::new(move |asm| pair(asm, rules.gated)),
    );
    case(numbers.prlimit64, Box::new(own_limits));
    if rules.gated != Gated::Nothing {
        case(numbers.connect, Box::new(|asm| asm.answer(Answer::Ask)));
    }
    if rules.network.is_restricted() {
        for (number, flags) in [
            (numbers.sendto, 3),
            (numbers.sendmsg, 2),
            (numbers.sendmmsg, 3),
        ] {
            case(
                number,
                Box::new(move |asm| refuse_bits(asm, flags, MSG_FASTOPEN)),
            );
        }
    }
    cases.sort_by_key(|c| c.number);
    cases
}

/// Decides by halves. When a filter is loaded the kernel runs it once for
/// every system call there is, so a list from top to bottom would cost each
/// spawn several times as much.
fn tree(asm: &mut Assembler, cases: &[Case<'_>]) {
    if cases.len() > LEAF {
        let (low, high) = cases.split_at(cases.len() / 2);
        asm.fork(high[0].number, |asm| tree(asm, low), |asm| tree(asm, high));
    } else {
        for case in cases {
            asm.block_if_equal(case.number, |asm| (case.then)(asm));
        }
        asm.answer(Answer::Allow);
    }
}

/// How many cases are compared one by one.
const LEAF: usize = 3;

/// The most comparisons of a number before it is decided.
#[cfg(test)]
pub(crate) fn depth(processor: Processor) -> usize {
    fn of(cases: usize) -> usize {
        if cases > LEAF {
            1 + of(cases.div_ceil(2))
        } else {
            cases
        }
    }
    let rules = Rules {
        network: &Network::Unrestricted,
        gated: Gated::Pairs,
    };
    of(cases(processor, rules).len())
}

fn terminal(asm: &mut Assembler) {
    asm.load(Word::Low(1));
    for request in TERMINAL_REQUESTS {
        asm.answer_if(JUMP_EQUAL, request, Answer::Errno(EPERM));
    }
    asm.answer(Answer::Allow);
}

/// A process may limit itself. With a limit on its processor time any other one
/// of the same user could be killed, and Landlock's scope of signals would not
/// be asked. (prlimit(2): pid 0 is the caller.)
fn own_limits(asm: &mut Assembler) {
    asm.load(Word::Low(0));
    asm.answer_unless(JUMP_EQUAL, 0, Answer::Errno(EPERM));
    asm.answer(Answer::Allow);
}

/// An end of a pair takes an address with a message as well. The listener can
/// give a pair that does not.
fn pair(asm: &mut Assembler, gated: Gated) {
    asm.load(Word::Low(0));
    asm.answer_unless(JUMP_EQUAL, AF_UNIX, Answer::Errno(EAFNOSUPPORT));
    if gated == Gated::Pairs {
        asm.load(Word::Low(1));
        asm.and(SOCK_TYPE_MASK);
        asm.answer_if(JUMP_EQUAL, SOCK_DGRAM, Answer::Ask);
    }
    unix(asm, gated);
}

/// A datagram socket takes an address with each message, which lies in memory
/// where this filter cannot look, and a listener that looked would see what
/// another thread changes a moment later. So where the filter has to keep
/// tools from pathname sockets there are none. The other two kinds take an
/// address in connect alone. (unix(7): SOCK_RAW makes a datagram socket too.)
fn unix(asm: &mut Assembler, gated: Gated) {
    if gated != Gated::Nothing {
        asm.load(Word::Low(1));
        asm.and(SOCK_TYPE_MASK);
        asm.answer_if(JUMP_EQUAL, SOCK_STREAM, Answer::Allow);
        asm.answer_unless(JUMP_EQUAL, SOCK_SEQPACKET, Answer::Errno(EACCES));
    }
    asm.answer(Answer::Allow);
}

fn refuse_bits(asm: &mut Assembler, argument: u32, bits: u32) {
    asm.load(Word::Low(argument));
    asm.answer_if(JUMP_ANY_BIT, bits, Answer::Errno(EPERM));
    asm.answer(Answer::Allow);
}

/// Families are an allow list: vsock reaches the hypervisor, packet sockets
/// the wire, and the others are code of the kernel that hardly anyone runs.
fn socket(asm: &mut Assembler, rules: Rules<'_>) {
    asm.load(Word::Low(0));
    asm.block_if_equal(AF_UNIX, |asm| unix(asm, rules.gated));
    asm.block_if_equal(AF_NETLINK, |asm| {
        // libc lists interfaces over it.
        asm.load(Word::Low(2));
        asm.answer_unless(JUMP_EQUAL, NETLINK_ROUTE, Answer::Errno(EPROTONOSUPPORT));
        asm.answer(Answer::Allow);
    });
    for family in [AF_INET, AF_INET6] {
        asm.block_if_equal(family, |asm| internet(asm, rules.network));
    }
    asm.answer(Answer::Errno(EAFNOSUPPORT));
}

fn internet(asm: &mut Assembler, network: &Network) {
    match network {
        Network::None => asm.answer(Answer::Errno(EACCES)),
        Network::Tcp { .. } => {
            // Landlock's port rules see plain TCP only: not MPTCP, and UDP not
            // before ABI 10.
            asm.load(Word::Low(1));
            asm.and(SOCK_TYPE_MASK);
            asm.answer_unless(JUMP_EQUAL, SOCK_STREAM, Answer::Errno(EACCES));
            asm.load(Word::Low(2));
            asm.answer_if(JUMP_EQUAL, IPPROTO_IP, Answer::Allow);
            asm.answer_if(JUMP_EQUAL, IPPROTO_TCP, Answer::Allow);
            asm.answer(Answer::Errno(EACCES));
        }
        Network::Unrestricted => {
            asm.load(Word::Low(1));
            asm.and(SOCK_TYPE_MASK);
            for kind in [SOCK_STREAM, SOCK_DGRAM] {
                asm.block_if_equal(kind, |asm| {
                    asm.load(Word::Low(2));
                    asm.answer_if(JUMP_EQUAL, IPPROTO_IP, Answer::Allow);
                    for protocol in USUAL_PROTOCOLS {
                        asm.answer_if(JUMP_EQUAL, protocol, Answer::Allow);
                    }
                    asm.answer(Answer::Errno(EPROTONOSUPPORT));
                });
            }
            asm.answer(Answer::Errno(EPERM));
        }
    }
}
