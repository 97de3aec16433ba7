#!/usr/bin/env bash
# What a newcomer types, on a bare Debian: debootstrap's smallest, with make and git, in a folder, and a clone of this
# repository in it. A machine that has everything cannot tell that packages.txt lacks something; this can.
#
#   tests/clean_root.sh [COMMAND [FILE...]]    as root; the command is typed in the clone [make test], and finds the
#                                              files in /root
#
# The folder is kept if it fails, and removed if not. It takes 8 GB. The clone has this repository's path and uses this
# machine's ccache, which compares compilers and all that they read: nothing of it is taken if the two differ.
set -euo pipefail

if (($(id -u) != 0)) || ! unshare --mount true 2>/dev/null; then
  echo "clean_root: needs root, and the right to mount; nothing was tested" >&2
  exit 77
fi
if ! command -v debootstrap >/dev/null; then
  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends debootstrap
fi

repository=$(cd "$(dirname "$0")/.." && pwd)
root=$(mktemp -d "${TMPDIR:-/tmp}/signvote_clean_root.XXXXXX")
chmod 755 "$root"  # as any other /, for users who are not root
# In a mount namespace of its own, so that nothing stays mounted, whatever happens.
unshare --mount --propagation private -- bash -euo pipefail -s "$root" "$repository" "${1:-make test}" "${@:2}" <<'INSIDE'
root=$1 repository=$2 command=$3 files=("${@:4}")
debootstrap --variant=minbase --include=make,git,ca-certificates bookworm "$root" >"$root.log" 2>&1 || {
  tail -5 "$root.log" >&2
  exit 1
}
rm "$root.log"
# What this machine's network needs, and nothing else of it: whence packages come, and whom to trust.
cp -r /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/" 2>/dev/null && : >"$root/etc/apt/sources.list"
if [[ -d /usr/local/share/ca-certificates ]]; then
  cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
  chroot "$root" update-ca-certificates >/dev/null
fi
cp /etc/resolv.conf /etc/hosts "$root/etc/"
git clone -q "$repository" "$root$repository"
if ((${#files[@]})); then cp "${files[@]}" "$root/root/"; fi
mount --bind "$root" "$root"  # else its / is not a mount, which some tests make private
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
cache=$(ccache --get-config cache_dir 2>/dev/null || true)
if [[ -d $cache ]]; then
  mkdir -p "$root/root/.cache/ccache" "$root/root/.config"
  mount --bind "$cache" "$root/root/.cache/ccache"
  if [[ -d ~/.config/ccache ]]; then cp -r ~/.config/ccache "$root/root/.config/"; fi
fi
echo "clean_root: $(git -C "$repository" log -1 --format=%h), in $root: $command"
env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" bash -c "cd '$repository' && $command" </dev/null
INSIDE
rm -rf --one-file-system "$root"
echo "clean_root: passed"
