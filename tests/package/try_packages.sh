#!/usr/bin/env bash
# Installs the Debian packages in /root and uses each as a new user would, who is not root. It changes the machine, so it
# is for a bare Debian in a folder: tests/clean_root.sh tests/package/try_packages.sh build/packages/*.deb
set -euo pipefail
cd "$(dirname "$0")/../.."

export DEBIAN_FRONTEND=noninteractive
step() { echo "try_packages: $*" >&2; }

step "install"
apt-get -qq update
# With what they recommend: gnuplot and MPI, gRPC's headers. systemd judges the unit; the rest shows and compiles.
apt-get -qq install -y /root/*.deb g++ man-db systemd python3-torch >/root/apt.log 2>&1 || {
  tail -20 /root/apt.log >&2
  exit 1
}
useradd --create-home --shell /bin/bash ann
cp -r tests examples ~ann/
(cd tests/cli && /usr/bin/python3 -B -c 'import shutil, generated_data; shutil.copytree(generated_data.mnist(), "/home/ann/mnist")')
chown -R ann ~ann

as_ann() { su --login ann --command "set -euo pipefail; $1"; }

step "the program"
dpkg-query --show --showformat '${Maintainer}\n' signvote libsignvote-dev python3-signvote | sort -u | grep -qx 'The signvote authors .*'
as_ann 'signvote --version'
as_ann 'signvote train --data ~/mnist --batches 2x4,24 --rounds 5 --out runs/first && signvote inspect runs/first'
as_ann 'signvote reproduce figure1 --data ~/mnist --batches 2x4,24 --rounds 3 --out runs/figure && test -s runs/figure/figure1.png'
as_ann 'mpirun -n 2 --oversubscribe signvote train --engine mpi --data ~/mnist --batches 2x4,24 --rounds 5 --out runs/mpi </dev/null'
as_ann 'grep -h "^  .model_sha256" runs/first/summary.json runs/mpi/summary.json | uniq | wc -l | grep -qx 1'

step "a server and two workers"
port=$(/usr/bin/python3 -c 'import socket; print(socket.create_server(("localhost", 0)).getsockname()[1])')
as_ann "port=$port"'
signvote certs new-ca certs && signvote certs server certs --host localhost
signvote certs worker certs --name worker-0 --name worker-1
signvote server --data ~/mnist --batches 4,24 --rounds 5 --listen localhost:$port --metrics-port off \
  --state runs/server --client-ca certs/ca.pem --cert certs/server.pem --key certs/server.key &
for m in 0 1; do
  signvote worker --connect localhost:$port --data ~/mnist \
    --ca certs/ca.pem --cert certs/worker-$m.pem --key certs/worker-$m.key &
done
wait
signvote journal runs/server verify'

step "the manual, completion, the unit"
as_ann 'man signvote-train | grep -q -- --rounds'
as_ann 'source /usr/share/bash-completion/completions/signvote; complete -p signvote'
systemd-analyze verify /usr/lib/systemd/system/signvote-server@.service

step "a program in C++"
as_ann 'c++ -std=c++20 tests/package/main.cpp $(pkg-config --cflags --libs signvote) -o vote && ./vote'
as_ann 'c++ -std=c++20 examples/own_worker.cpp $(pkg-config --cflags --libs signvote-worker) -o own_worker && test -x own_worker'

step "Python"
as_ann "/usr/bin/python3 -c 'import signvote; print(signvote.__version__, signvote.Worker)'"
as_ann "/usr/bin/python3 -c 'import signvote.ddp'"

step "remove"
apt-get -qq remove -y signvote libsignvote-dev python3-signvote >/dev/null
if command -v signvote; then exit 1; fi
step "passed"
