#!/usr/bin/env bash
# Two hosts on one machine: two network, host name and mount namespaces, connected by a virtual cable, with sshd in
# both. A run with the hostfile has the losses of one host. When the cable is cut the run ends, and a restart continues
# on the remaining host.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
[ "$(id -u)" -eq 0 ] || skip "namespaces of network and host name want root"
sshd=${MEGA_TEST_SSHD:-$(PATH=$PATH:/usr/sbin command -v sshd)} ||
    skip "no sshd (apt-get install openssh-server, or MEGA_TEST_SSHD=PATH)"
for tool in ip unshare nsenter ssh ssh-keygen mpirun; do
    command -v $tool >/dev/null || skip "$tool is not there"
done
case "$(mpirun --version 2>&1)" in *'Open MPI'*) ;; *) skip "mpirun is not Open MPI's" ;; esac
"$MEGALITH" doctor 2>/dev/null | grep -q '^  MPI  *Open MPI' || skip "megalith was not built with Open MPI"
unset RANK WORLD_SIZE OMPI_MCA_btl OMPI_MCA_btl_vader_single_copy_mechanism
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"

# ---- the hosts ----
mkdir -p home/.ssh
chmod 755 "$work"
ssh-keygen -q -t ed25519 -N '' -f home/.ssh/id_ed25519 && ssh-keygen -q -t ed25519 -N '' -f home/hostkey ||
    skip "ssh-keygen makes no keys"
cp home/.ssh/id_ed25519.pub home/.ssh/authorized_keys
printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' >home/.ssh/config
printf '127.0.0.1 localhost\n10.77.0.1 hosta\n10.77.0.2 hostb\n' >hosts
{ echo "root:x:0:0:root:$work/home:/bin/bash"; grep -v '^root:' /etc/passwd; grep -q '^sshd:' /etc/passwd ||
    echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin'; } >passwd
cat >sshd_config <<TEXT
HostKey $work/home/hostkey
AuthorizedKeysFile $work/home/.ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
TEXT
# This process keeps a host's namespaces alive.
cat >host.sh <<TEXT
mount --bind $work/passwd /etc/passwd && mount --bind $work/hosts /etc/hosts && mount -t tmpfs none /run && mkdir -p /run/sshd &&
    hostname \$1 && ip link set lo up && touch $work/\$1.up && exec $sshd -D -f $work/sshd_config
TEXT
pids=()
end_hosts() {
    local pid here
    for pid in "${pids[@]}"; do
        here=$(readlink "/proc/$pid/ns/net") || continue
        [ "$here" != "$(readlink /proc/self/ns/net)" ] || continue
        # shellcheck disable=SC2046 # everything that runs on that host
        kill -9 $(find /proc -maxdepth 3 -path '*/ns/net' -lname "${here/\[/\\[}" 2>/dev/null | cut -d/ -f3)
    done 2>/dev/null
    ip link del "mg$$a" 2>/dev/null
    rm -rf "$work"
}
trap end_hosts EXIT
for host in hosta hostb; do
    unshare --net --uts --mount bash host.sh $host >$host.log 2>&1 &
    pids+=($!)
    for _ in $(seq 1 50); do [ -e $host.up ] || sleep 0.1; done
    [ -e $host.up ] || skip "no namespaces here: $(tail -n 1 $host.log)"
done
on() { # HOST-NUMBER COMMAND…
    nsenter -t "${pids[$1]}" --net --uts --mount --wd="$work" "${@:2}"
}
cable() { # plugs the hosts together
    ip link add "mg$$a" type veth peer name "mg$$b" && ip link set "mg$$a" netns "${pids[0]}" &&
        ip link set "mg$$b" netns "${pids[1]}" &&
        on 0 ip addr add 10.77.0.1/24 dev "mg$$a" && on 0 ip link set "mg$$a" up &&
        on 1 ip addr add 10.77.0.2/24 dev "mg$$b" && on 1 ip link set "mg$$b" up
}
cable || skip "no pair of virtual network cards here"
for _ in $(seq 1 50); do
    on 0 ssh -o BatchMode=yes -o ConnectTimeout=2 hostb true 2>ssh.log && break
    sleep 0.1
done
on 0 ssh -o BatchMode=yes hostb hostname 2>ssh.log | grep -qx hostb ||
    skip "ssh does not reach the other host: $(tail -n 1 ssh.log hostb.log)"

# ---- training ----
fox_lines 300 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >prepare 2>&1 ||
    fail "preprocessing: $(cat prepare)"
base=(pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings \
    32 --num-threads 1
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 100000 \
        --eval-iters 0
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 100,0,0)
losses() { grep -oE 'iteration +[0-9]+/.*lm loss: [0-9.E+-]+' "$1" | sed -E 's/^iteration +([0-9]+).*lm loss:/\1/'; }
printf 'hosta slots=1\nhostb slots=1\n' >hostfile
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters 4 >one_host 2>&1 </dev/null ||
    fail "one host: $(tail -n 3 one_host)"
on 0 "$MEGALITH" launch --hostfile hostfile "${base[@]}" --train-iters 4 >out 2>err </dev/null || fail "two hosts"
[ "$(losses out | wc -l)" -eq 4 ] && [ "$(losses out)" = "$(losses one_host)" ] ||
    note "two hosts: other losses than one"

# ---- a rank of the other host stops ----
printf 'hosta slots=2\nhostb slots=2\n' >hostfile4
rm -f out err
on 0 "$MEGALITH" launch --hostfile hostfile4 "${base[@]}" --train-iters 100001 --distributed-timeout-minutes 0.25 >out \
    2>err </dev/null &
launcher=$! victim=
for _ in $(seq 1 300); do grep -qs 'iteration  *3/' out && break || sleep 0.1; done
for pid in $(pgrep -f "^$MEGALITH pretrain_gpt .*train-iters 100001"); do
    [ "$(readlink "/proc/$pid/ns/net")" = "$(readlink "/proc/${pids[1]}/ns/net")" ] && victim=$pid
done
began=$(date +%s)
[ -n "$victim" ] && kill -STOP "$victim" || fail "no rank on the other host: $(tail -n 4 err)"
wait $launcher && note "exit status 0 with a stopped rank"
[ $(($(date +%s) - began)) -le "$(at_most 25)" ] ||
    note "a stopped rank: ended $(($(date +%s) - began)) s later, expected 15 + 10 at most"
grep -q "rank [23] (process $victim\( on host hostb\)\?) has been stopped by a signal .* at step [0-9]*, " err ||
    note "a stopped rank of the other host: $(tail -n 4 err)"

# ---- a link goes down ----
# Cuts the cable when the output of the current run shows this, and waits for the end of the run.
cut_at() {
    local launcher=$!
    for _ in $(seq 1 300); do
        grep -q "$1" out && break
        sleep 0.1
    done
    grep -q "$1" out || fail "the run does not come to $1"
    on 1 ip link set "mg$$b" down
    began=$(date +%s)
    wait $launcher
    status=$?
    ended=$(($(date +%s) - began))
    echo "ended $ended s after the cut, status $status: $(tail -n 1 err)"
}
rm -f out err
on 0 "$MEGALITH" launch --hostfile hostfile "${base[@]}" --train-iters 100002 >out 2>err </dev/null &
# A cut of three seconds does not end the run.
at() { losses out | tail -n 1 | cut -d' ' -f1; }
for _ in $(seq 1 300); do grep -qs 'iteration  *3/' out && break || sleep 0.1; done
on 1 ip link set "mg$$b" down
sleep 3
before=$(at)
on 1 ip link set "mg$$b" up
for _ in $(seq 1 300); do [ "$(at)" -gt $((before + 1)) ] && break || sleep 0.1; done
[ "$(at)" -gt $((before + 1)) ] || note "a cut of 3 s: the run does not go on: $(tail -n 3 err)"
cut_at 'iteration  *3/'
[ $status -ne 0 ] || note "exit status 0 without a host"
[ $ended -le "$(at_most 10)" ] || note "ended $ended s after the cut, expected 10 at most"
tail -n 1 err | grep -q 'host hostb (rank 1) has not answered for [0-9]* s.* which waited in .* for rank 1$' ||
    note "the last line does not name the host, its rank and who waits"
for _ in $(seq 1 100); do pgrep -f "^$MEGALITH pretrain_gpt .*train-iters 100002" >/dev/null && sleep 0.1; done
pgrep -f "^$MEGALITH pretrain_gpt .*train-iters 100002" >/dev/null && note "a rank lives on"

on 1 ip link set "mg$$b" up
for _ in $(seq 1 50); do on 0 ssh -o BatchMode=yes -o ConnectTimeout=2 hostb true 2>/dev/null && break; done
export OMPI_MCA_oob_tcp_keepalive_time=2 OMPI_MCA_oob_tcp_keepalive_intvl=1 # what the user has set counts
rm -f out err
on 0 "$MEGALITH" launch --hostfile hostfile --max-restarts 1 "${base[@]}" --train-iters 1500 --log-interval 100 --save \
    keep --save-interval 100 >out 2>err </dev/null &
cut_at 'successfully saved checkpoint at iteration  *100 '
[ $status -eq 0 ] || note "a restart with the host that is left"
[ $ended -le "$(at_most 30)" ] || note "ended $ended s after the cut"
grep -q 'host hostb does not answer ssh and is left out' err || note "no word of the host that is left out"
grep -q 'restart 1 of 1, 1 rank, from the last checkpoint of keep' err || note "no word of the restart"
[ "$(cat keep/latest_checkpointed_iteration.txt)" = 1500 ] || note "it did not reach the end"

finish
