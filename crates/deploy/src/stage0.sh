# Stage 0: finds or installs toolsrv on a host that may have nothing but a POSIX
# shell, and becomes it. olliesrv puts these assignments in front:
#   ollie_n  a word for this start; every line that is meant for olliesrv begins with it
#   ollie_w  "ARCH SHA256 SIZE" for each toolsrv that could be sent
#   ollie_s  roots that are not to be used, separated by newlines
#   ollie_g  how toolsrv is started: "serve", or "serve --lasting" for a session with a lease
#   ollie_l  the socket of a session that may live on here; empty if there is none
# Nothing is exported and nothing outlives this but what it installs. One block,
# because a shell that reads it from standard input must have all of it first.
# shellcheck disable=SC2154 # these are assigned in front
{
# As a login shell zsh splits no words.
[ -z "${ZSH_VERSION-}" ] || emulate sh
ollie_nl='
'
ollie_say() { printf '%s %s\n' "$ollie_n" "$1"; }
ollie_is() { command -v "$1" >/dev/null 2>&1; }

# Whether group $1 is this user's alone: his own, of his name, and without other members.
ollie_alone() (
  [ "$(id -g)" = "$1" ] && n=$(id -un) && [ "$(id -gn)" = "$n" ] || exit 1
  { getent group "$1" 2>/dev/null || cat /etc/group; } | while IFS=: read -r name key number members; do
    [ "$number" = "$1" ] || continue
    case $name:$members in "$n:"|"$n:$n") echo "$key" ;; esac
    break
  done | { read -r key && [ -n "$key" ]; }
)

# Tells which link on the way to $1 another user made, if there is one.
ollie_links() {
  l=$1
  set --
  while [ -n "${l%/}" ]; do
    [ ! -h "$l" ] || set -- "$@" "$l"
    l=${l%/*}
  done
  # shellcheck disable=SC2012 # the names are only shown; find is not everywhere
  [ $# -gt 0 ] && ls -ldn -- "$@" 2>&1 | (
    while read -r mode links uid rest; do
      case $uid in 0|"$ollie_u") ;; *) echo "a link on the way belongs to another user: $mode $links $uid $rest"; exit 0 ;; esac
    done
    exit 1
  )
}

# Why somebody else could choose what lies in directory $1, a path without
# links; nothing if nobody can. Moves there.
ollie_open() {
  cd -P -- "$1" 2>/dev/null || { echo 'it cannot be entered'; return; }
  [ -O . ] || { echo 'it belongs to another user'; return; }
  d=$PWD
  [ "$d" = "$1" ] || { echo 'somebody moves it'; return; }
  set -- "$d"
  while [ "$d" != / ]; do d=${d%/*}; d=${d:-/}; set -- "$@" "$d"; done
  # shellcheck disable=SC2012 # the names are only shown; find is not everywhere
  ls -ldn -- "$@" 2>&1 | while read -r mode links uid gid rest; do
    case $uid in 0|"$ollie_u") ;; *) echo "a part of it belongs to another user: $mode $links $uid $gid $rest"; break ;; esac
    case $mode in
      ?????????[tT]*) ;;
      d???????w*|d????w*+) echo "others may write: $mode $links $uid $gid $rest"; break ;;
      d????w*) ollie_alone "$gid" || { echo "its group may write: $mode $links $uid $gid $rest"; break; } ;;
      d*) ;;
      *) echo "it cannot be looked at: $mode $links $uid $gid $rest"; break ;;
    esac
  done
}

# SHA-256 of file $1, with whatever can make one.
ollie_sum() {
  case $ollie_h in
    sha256sum) sha256sum <"$1" ;;
    busybox) busybox sha256sum <"$1" ;;
    openssl) openssl dgst -sha256 -r <"$1" ;;
    self) "$1" --build-id ;;
  esac 2>/dev/null
}

# Whether $1 is a file and not a link to one.
ollie_file() { [ -f "$1" ] && [ ! -h "$1" ]; }

# Becomes toolsrv $1: that of the session that lives on, if its socket is there, else a new one.
ollie_become() {
  if [ -n "$ollie_l" ] && [ -S "$ollie_l" ] && [ -O "$ollie_l" ]; then
    ollie_say "attach $1"
    exec "$1" attach "$ollie_l" "$ollie_n"
  fi
  ollie_say "run $1"
  # shellcheck disable=SC2086 # split on purpose
  exec "$1" $ollie_g
}

# Becomes the toolsrv below root $1, if it is there and right.
ollie_run() {
  ollie_p=$1/linux-$ollie_a/$ollie_sha
  [ -x "$ollie_p/toolsrv" ] && [ "$ollie_h" != self ] && [ ! -h "$1" ] || return 1
  # What a link leads to is looked at, and not the link followed again.
  ollie_p=$(cd -P -- "$ollie_p" 2>/dev/null && printf %s "$PWD/toolsrv")
  ollie_file "$ollie_p" && [ -O "$ollie_p" ] || return 1
  # All at once; if nothing is wrong with the directories, the sum is the one line.
  ollie_e=$(ollie_sum "$ollie_p" & ollie_links "$1"; ollie_open "${ollie_p%/*}"; wait)
  case $ollie_e in *"$ollie_nl"*) return 1 ;; "$ollie_sha"*) ;; *) return 1 ;; esac
  ollie_become "$ollie_p"
}

# Why nothing can be installed below root $1; if it can, `here` and its path without links.
# Leaves the staging directory behind.
ollie_try() (
  umask 077
  case $1 in /*) ;; '') echo 'HOME is not set, or has a newline'; exit ;; *) echo 'it is not an absolute path'; exit ;; esac
  case $ollie_nl$ollie_s$ollie_nl in *"$ollie_nl$1$ollie_nl"*) echo 'it failed before'; exit ;; esac
  case $1 in "${HOME:-//}"/*) [ -d "$HOME" ] || { echo 'there is no such home directory'; exit; } ;; esac
  [ ! -h "$1" ] || { echo 'it is a symbolic link'; exit; }
  ! ollie_links "$1" || exit
  t=linux-$ollie_a/.staged-$ollie_n
  e=$({ mkdir -p -- "$1/$t" && cd -P -- "$1" && pwd; } 2>&1) || { echo "${e%%"$ollie_nl"*}"; exit; }
  r=$e
  t=$r/$t
  # Nobody knew its name before; in directories that are only ours it is what it was made as.
  e=$(ollie_open "$t"); [ -z "$e" ] || { rmdir -- "$t" 2>/dev/null; echo "$e"; exit; }
  # A file of the full size shows a full disk or a quota before anything is sent.
  e=$({ ollie_zeros >"$t/toolsrv"; } 2>&1) || { rm -rf -- "$t"; echo "no room for $ollie_size bytes: ${e%%"$ollie_nl"*}"; exit; }
  e=$({ printf '#!/bin/sh\n' >"$t/probe" && chmod 700 "$t/probe" && "$t/probe"; } 2>&1) ||
    { rm -rf -- "$t"; echo "nothing can be executed there: ${e%%"$ollie_nl"*}"; exit; }
  echo "here $r"
)
ollie_zeros() { case $ollie_i in head) head -c "$ollie_size" /dev/zero ;; *) dd if=/dev/zero bs=65536 count=$((ollie_size / 65536 + 1)) ;; esac; }

# The next $1 bytes of standard input.
ollie_take() { case $ollie_i in head) head -c "$1" ;; *) dd bs=1 count="$1" 2>/dev/null ;; esac; }
ollie_unpack() { case $1 in xz-utils) xz -qT0 -dc ;; xz) xz -dc ;; gzip) gzip -dc ;; *) cat ;; esac; }

# Receives toolsrv into root $1 and puts it in its place; returns if that is not to be had.
ollie_install() {
  ollie_t=$1/linux-$ollie_a/.staged-$ollie_n
  ollie_f=$ollie_t/toolsrv
  read -r ollie_k ollie_v ollie_b ollie_c || ollie_v=
  if [ "$ollie_k $ollie_v" != "$ollie_n put" ]; then rm -rf -- "$ollie_t"; exit 1; fi
  ollie_e=$({ ollie_take "$ollie_b" | ollie_unpack "$ollie_c" >"$ollie_f"; } 2>&1)
  chmod 500 "$ollie_f" 2>/dev/null &
  [ "$ollie_h" != self ] || wait
  # A file that tells its own sum must have its size before it is started.
  if [ "$ollie_h" = self ] && [ "$(wc -c <"$ollie_f")" -ne "$ollie_size" ] 2>/dev/null; then ollie_h=none; fi
  ollie_x=$(ollie_sum "$ollie_f")
  wait
  # No start on trial: the file is the promised one, and something was executed here.
  if ! { ollie_file "$ollie_f" && [ "${ollie_x%%[!0-9a-f]*}" = "$ollie_sha" ]; }; then
    ollie_got=$(wc -c <"$ollie_f" 2>/dev/null)
    rm -rf -- "$ollie_t"
    ollie_say "failed $((ollie_got + 0)) of $ollie_size bytes arrived in $1: ${ollie_e%%"$ollie_nl"*}"
    exit 1
  fi
  ollie_d=$1/linux-$ollie_a/$ollie_sha
  ollie_e=$({
    umask 077
    [ ! -h "$ollie_d" ] || rm -f -- "$ollie_d"
    mkdir -- "$ollie_d" 2>/dev/null || chmod 700 "$ollie_d"
    [ ! -d "$ollie_d/toolsrv" ] || rm -rf -- "$ollie_d/toolsrv"
    mv -f -- "$ollie_f" "$ollie_d/toolsrv"
  } 2>&1) && { rm -rf -- "$ollie_t"; ollie_become "$ollie_d/toolsrv"; }
  rm -rf -- "$ollie_t"
  ollie_e=${ollie_e%%"$ollie_nl"*}
}

ollie_h=self
for ollie_x in openssl sha256sum; do ollie_is $ollie_x && ollie_h=$ollie_x; done
if [ $ollie_h = self ] && ollie_is busybox; then ollie_h=busybox; fi
ollie_i='dd'
ollie_is head && ollie_i='head'
ollie_x="$ollie_h $ollie_i"
if ollie_is xz; then
  ollie_x="$ollie_x xz"
  # The one of busybox has neither filters nor threads.
  # shellcheck disable=SC2046 # split on purpose
  set -- $(command -v xz; command -v busybox)
  # shellcheck disable=SC3013 # where there is no -ef, xz is tried, and then something simpler
  case $1 in /*) [ "$1" -ef "${2-}" ] || ollie_x="$ollie_x xz-utils" ;; esac
fi
ollie_is gzip && ollie_x="$ollie_x gzip"
# shellcheck disable=SC2046 # split on purpose
set -- $(uname -s -m -r 2>/dev/null; id -u 2>/dev/null)
ollie_a=${3-} ollie_u=${4-} ollie_sha='' ollie_size=0
# In one piece, because sshd makes a packet of each write; and on a line of its
# own, whatever was printed before.
printf '\n%s os %s\n%s kernel %s\n%s arch %s\n%s uid %s\n%s home %s\n%s tools %s\n' \
  "$ollie_n" "${1-}" "$ollie_n" "${2-}" "$ollie_n" "$ollie_a" \
  "$ollie_n" "$ollie_u" "$ollie_n" "${HOME-}" "$ollie_n" "$ollie_x"
ollie_x=''
for ollie_p in uname id ls mkdir chmod mv rm; do ollie_is $ollie_p || ollie_x="$ollie_x $ollie_p"; done
if [ -n "$ollie_x" ]; then
  ollie_say "lacks$ollie_x"
  exit 1
fi
# shellcheck disable=SC2086 # split on purpose
set -- $ollie_w
while [ $# -ge 3 ]; do
  if [ "$1" = "$ollie_a" ]; then ollie_sha=$2 ollie_size=$3; fi
  shift 3
done
if [ -n "$ollie_sha" ]; then
  ollie_c=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  case $ollie_c in *"$ollie_nl"*) ollie_c='' ;; esac
  ollie_c=${ollie_c:+$ollie_c/ollie}
  set -- "$ollie_c" "/var/tmp/ollie-$ollie_u" "/tmp/ollie-$ollie_u"
  for ollie_r in "$@"; do ollie_run "$ollie_r"; done
  for ollie_r in "$@"; do
    ollie_e=$(ollie_try "$ollie_r")
    case $ollie_e in 'here /'*)
      # If nobody reads any more, what was staged goes before the shell does.
      trap : PIPE
      ollie_say "need $ollie_r"
      ollie_install "${ollie_e#here }"
    esac
    ollie_say "refused $ollie_r: $ollie_e"
  done
fi
ollie_say stuck
exit 1
}
