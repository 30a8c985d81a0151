#!/bin/sh
# An RPC server on an emulated 64-bit ARM CPU, to try what is built for a board without one.
#
#     python -m tvm.exec.rpc_tracker --host 127.0.0.1 --port 9190 &       # this python and pip: .venv/tvm/bin
#     tools/emulated_board.sh /tmp/board 127.0.0.1:9190 board             # then, when it says "bind to", on another terminal:
#     python tutorials/tune_for_a_board.py --tracker 127.0.0.1:9190 --key board --trials 8
#
# Needs Debian or Ubuntu on x86-64 with qemu-user and g++-aarch64-linux-gnu, and .venv/tvm. The first call downloads an ARM Python and
# TVM's ARM wheel into the folder (500 MB unpacked); the server takes a minute to start. Latencies are those of the emulation.
set -eu
[ $# = 3 ] || { echo "usage: $0 FOLDER TRACKER:PORT KEY" >&2; exit 2; }
command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null || {
    echo "$0 needs qemu-aarch64 and aarch64-linux-gnu-g++: apt-get install qemu-user g++-aarch64-linux-gnu" >&2; exit 1; }
pip="$(cd "$(dirname "$0")/.." && pwd)/.venv/tvm/bin/python -m pip"
mkdir -p "$1"
cd "$1"
if [ ! -e made ]; then
    mkdir -p apt/lists/partial apt/archives/partial debs root site wheels
    : > apt/status  # apt's own state, so that this machine's is left alone
    apt="apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State=$PWD/apt -o Dir::State::status=$PWD/apt/status -o Dir::Cache=$PWD/apt"
    $apt update
    version=$($apt -s install python3 | sed -n 's/^Inst \(python3\.[0-9]*\)-minimal .*/\1/p')
    (cd debs && $apt download $($apt -s install "$version" libstdc++6 | sed -n 's/^Inst \([^ ]*\) .*/\1/p'))
    for package in debs/*.deb; do dpkg -x "$package" root; done
    $pip download -q --no-deps --only-binary=:all: -d wheels --python-version "${version#python}" --implementation cp \
        --abi "cp$(echo "${version#python}" | tr -d .)" --abi abi3 --abi none $(for glibc in 2_28 2_27 2_24 2_17; do echo --platform "manylinux_${glibc}_aarch64"; done) \
        --platform manylinux2014_aarch64 $($pip freeze | sed -n '/^\(apache-tvm\|apache-tvm-ffi\|numpy\|psutil\|cloudpickle\|ml_dtypes\|typing_extensions\|tornado\)==/p')
    for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" site; done
    # What is started with `sys.executable` must be emulated, too; g++ need not be.
    cat > python <<SCRIPT
#!/bin/sh
export PYTHONHOME=$PWD/root/usr PYTHONPATH=$PWD/site CXX=aarch64-linux-gnu-g++
exec qemu-aarch64 -0 $PWD/python -L $PWD/root $PWD/root/usr/bin/$version "\$@"
SCRIPT
    chmod +x python
    touch made
fi
exec ./python -m tvm.exec.rpc_server --host 127.0.0.1 --tracker "$2" --key "$3"
