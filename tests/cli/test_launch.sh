#!/usr/bin/env bash
# megalith launch on one host: options of torchrun and DeepSpeed, hostfiles, the command line for each MPI launcher
# (called engine below), and the lines that it passes on. The engines here are scripts.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
unset RANK WORLD_SIZE SLURM_JOB_ID SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_NPROCS \
    SLURM_TASKS_PER_NODE SLURM_HET_SIZE OMPI_MCA_btl OMPI_MCA_btl_vader_single_copy_mechanism
"$MEGALITH" doctor 2>/dev/null | grep -q '^  MPI  *Open MPI' ||
    skip "megalith was not built with Open MPI: its engines are not those of this test"

# engine FOLDER NAME 'what --version prints' ['what it does']
engine() {
    mkdir -p "$1"
    printf \
        '#!/bin/sh\ncase "$1" in --version) echo "%s"; exit 0;; --mpi=list) echo "MPI plugin types are..."; echo "pmix"; exit 0;; esac\n%s\n' \
        "$3" "${4:-echo "$2 ran"}" >"$1/$2"
    chmod +x "$1/$2"
}
engine ompi4 mpirun 'mpirun (Open MPI) 4.1.4'
engine ompi5 mpirun 'mpirun (Open MPI) 5.0.3'
engine hydra mpiexec 'HYDRA build details:'
engine slurm srun 'slurm 22.05.8'
launch() { # FOLDER ARGUMENTS…
    local path=$work/$1:$PATH
    shift
    PATH=$path "$MEGALITH" launch "$@" </dev/null
}
# shows NAME 'part|part|…' FOLDER ARGUMENTS…: --dry-run prints every part
shows() {
    local name=$1 parts=$2 part text
    shift 2
    text=$(launch "$1" --dry-run "${@:2}" 2>err) || note "$name: exit status $?: $text"
    while IFS= read -r part; do
        case "$text" in
        *"$part"*) ;;
        *) note "$name: \"$part\" is not in: $text" ;;
        esac
    done < <(printf '%s\n' "$parts" | tr '|' '\n')
}
root=
[ "$(id -u)" -ne 0 ] || root='--allow-run-as-root '
echo x >t.txt
printf '  # two hosts\n\n  worker-0 slots=4 # the first\nworker-1\tslots=4\n' >hostfile

# ---- the command line of each engine ----
shows 'one rank needs no engine' "$MEGALITH pretrain_gpt --lr 1e-3" ompi4 --nproc_per_node 1 pretrain_gpt.py --lr 1e-3
shows 'Open MPI 4' \
    "ompi4/mpirun ${root}--tag-output --map-by slot:OVERSUBSCRIBE --bind-to none -n 2 $MEGALITH pretrain_gpt --lr 1e-3|MEGA_LAUNCH=1|OMPI_MCA_btl=self,vader" \
    ompi4 --nproc_per_node 2 pretrain_gpt --lr 1e-3
shows 'Open MPI 5' \
    "ompi5/mpirun ${root}--output tag --map-by slot:OVERSUBSCRIBE --bind-to none -n 2|OMPI_MCA_btl=self,sm" ompi5 \
    --nproc_per_node 2 pretrain_gpt
shows 'more ranks than cores' 'OMPI_MCA_mpi_yield_when_idle=1' ompi4 --nproc_per_node 4000 pretrain_gpt
shows 'Open MPI, two hosts' '--host worker-0:4,worker-1:4 -x |-x MEGA_LAUNCH=1 -n 8|oob_tcp_keepalive_time' ompi4 \
    --hostfile hostfile pretrain_gpt
shows 'MPICH' "hydra/mpiexec -hosts worker-0:2,worker-1:2 -prepend-pattern \$'\\036%r\\037' -n 4" hydra --launcher \
    mpich --hostfile hostfile --num_gpus 2 pretrain_gpt
export SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=2
shows 'Slurm' \
    'slurm/srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --mpi=pmix --cpu-bind=none --overcommit --kill-on-bad-exit=1 --label ' \
    slurm --nproc_per_node 4 pretrain_gpt
SLURM_NTASKS_PER_NODE=3 shows 'Slurm says the ranks' '--ntasks=6' slurm pretrain_gpt
SLURM_NTASKS_PER_NODE=3 shows 'Slurm, hosts chosen' '--nodes=2 --ntasks=6 --ntasks-per-node=3 --nodelist=a,b ' slurm \
    --include a@b pretrain_gpt
SLURM_NTASKS_PER_NODE=3 shows 'Slurm, one host chosen' '--nodes=1 --ntasks=3 --ntasks-per-node=3 --nodelist=a ' slurm \
    --include a pretrain_gpt
SLURM_NTASKS=8 shows 'Slurm, one host left out' '--nodes=1 --ntasks=4 --ntasks-per-node=4 --exclude=b ' slurm \
    --exclude b pretrain_gpt
shows 'a hostfile inside an allocation' '-n 8' ompi4 --hostfile hostfile pretrain_gpt
# What the allocation says, in every form of its variables: WORDS OF SRUN|VARIABLES|ARGUMENTS, where + stands between
# two of the words
while IFS='|' read -r words variables arguments; do
    # shellcheck disable=SC2086
    text=$(PATH=$work/slurm:$PATH env $variables "$MEGALITH" launch --dry-run $arguments pretrain_gpt 2>err \
        </dev/null) || note "$variables $arguments: $(cat err)"
    for part in ${words//+/ }; do
        case "$text " in *" ${part#!} "*) [ "${part#!}" = "$part" ] ||
            note "$variables $arguments: ${part#!} is in: $text" ;; *) [ "${part#!}" != "$part" ] ||
            note "$variables $arguments: $part is not in: $text" ;; esac
    done
    case "$variables" in *TASKS*) [ -n "$arguments" ] ||
        grep -q "^megalith launch: Slurm: [0-9]* ranks\? on [0-9]* hosts\?, as SLURM_" err ||
        note "$variables: nothing is said" ;; esac
    case "$words $arguments" in *--nodes=1+*_per_node* | *--nodes=1+*--num_processes*)
        grep -q "on 1 of the allocation's [23] hosts" err ||
            note "$variables $arguments: hosts without ranks are not named" ;; esac
done <<'TABLE'
--nodes=2+--ntasks=8+--ntasks-per-node=4|SLURM_NTASKS=8|
--nodes=2+--ntasks=8+--ntasks-per-node=4|SLURM_NPROCS=8|
--nodes=2+--ntasks=8+--ntasks-per-node=4|SLURM_NTASKS=8 SLURM_NTASKS_PER_NODE=4|
--nodes=2+--ntasks=8+--ntasks-per-node=4|SLURM_NTASKS=8 SLURM_TASKS_PER_NODE=4(x2)|
--nodes=2+--ntasks=7|SLURM_NTASKS=7 SLURM_NTASKS_PER_NODE=4|
--nodes=2+--ntasks=7|SLURM_NTASKS=7|
--nodes=2+--ntasks=8|SLURM_NTASKS=8 SLURM_TASKS_PER_NODE=5,3|
--nodes=3+--ntasks=11|SLURM_JOB_NUM_NODES=3 SLURM_TASKS_PER_NODE=4(x2),3|
--nodes=4+--ntasks=8+--ntasks-per-node=2|SLURM_JOB_NUM_NODES=4 SLURM_TASKS_PER_NODE=2(x3),2|
--nodes=3+--ntasks=11|-uSLURM_JOB_NUM_NODES SLURM_TASKS_PER_NODE=4(x2),3|
--nodes=3+--ntasks=3|-uSLURM_JOB_NUM_NODES SLURM_NNODES=3 SLURM_TASKS_PER_NODE=1(x3)|
--nodes=2+--ntasks=6+--ntasks-per-node=3|SLURM_NTASKS=8|--nproc_per_node 3
--nodes=1+--ntasks=4+--ntasks-per-node=4|SLURM_NTASKS=8|--nnodes 1
--nodes=1+--ntasks=2+--ntasks-per-node=2|SLURM_JOB_NUM_NODES=3 SLURM_TASKS_PER_NODE=4(x2),3|--nnodes 1 --nproc_per_node 2
--nodes=1+--ntasks=8+--ntasks-per-node=8|SLURM_NTASKS=2|--num_processes 8
--nodes=1+--ntasks=1|SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=1|
TABLE
while IFS='|' read -r message variables arguments; do
    # shellcheck disable=SC2086
    PATH=$work/slurm:$PATH env $variables "$MEGALITH" launch --dry-run $arguments pretrain_gpt >out 2>err </dev/null &&
        note "$variables $arguments: taken: $(cat out)"
    grep -qF -- "$message" err || note "$variables $arguments: $(cat err)"
done <<'TABLE'
does not say how many ranks each host has|MEGA=1|
does not say how many hosts it has|-uSLURM_JOB_NUM_NODES SLURM_NTASKS=8|
environment SLURM_NTASKS: found "8x"|SLURM_NTASKS=8x|
environment SLURM_TASKS_PER_NODE: found "4(x2"|SLURM_TASKS_PER_NODE=4(x2|
environment SLURM_TASKS_PER_NODE: found "4(x2),"|SLURM_TASKS_PER_NODE=4(x2),|
SLURM_TASKS_PER_NODE=4(x2),3 is about 3 nodes, but there are 2|SLURM_TASKS_PER_NODE=4(x2),3|
contradicts itself: SLURM_NTASKS=9, but 2 nodes with SLURM_NTASKS_PER_NODE=4|SLURM_NTASKS=9 SLURM_NTASKS_PER_NODE=4|
have different numbers of tasks (SLURM_TASKS_PER_NODE=4(x2),3)|SLURM_JOB_NUM_NODES=3 SLURM_TASKS_PER_NODE=4(x2),3|--nnodes 2
have different numbers of tasks (SLURM_NTASKS=7)|SLURM_NTASKS=7|--nnodes 1
--nnodes 3: the Slurm allocation has 2 hosts|SLURM_NTASKS=8|--nnodes 3
SLURM_HET_SIZE=2: a heterogeneous job|SLURM_HET_SIZE=2 SLURM_NTASKS=8|
--include n[1-2]: write each host by itself|SLURM_NTASKS=8|--include n[1-2]
--include a@b@c names 3 hosts, but the allocation has 2|SLURM_NTASKS=8|--include a@b@c
srun is not on PATH, so the ranks of the Slurm allocation cannot be started|SLURM_NTASKS=8 PATH=/usr/bin:/bin|
srun is not on PATH|SLURM_NTASKS=8 PATH=/usr/bin:/bin|--nproc_per_node 4
in a Slurm allocation the number of ranks comes from --nproc_per_node|SLURM_NTASKS=8|--launcher openmpi
TABLE
SLURM_NTASKS=8 shows 'this host alone, without srun' '-n 2 ' ompi4 --nnodes 1 --nproc_per_node 2 pretrain_gpt
# A rank of srun is told how many run on its host.
printf '#!/bin/sh\necho "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"\n' >place
chmod +x place
for node in 0:4 1:4 2:3; do
    text=$(SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=11 SLURM_LOCALID=1 SLURM_NODEID=${node%:*} \
        SLURM_STEP_TASKS_PER_NODE='4(x2),3' "$MEGALITH" launch --start-rank A=1 -- ./place)
    [ "$text" = "1 of 11, 1 of ${node#*:}" ] || note "a rank on host ${node%:*}: $text"
done
unset SLURM_JOB_ID SLURM_JOB_NUM_NODES

# ---- arguments ----
while IFS='|' read -r ranks arguments; do
    # shellcheck disable=SC2086
    shows "$arguments" "-n $ranks " ompi4 $arguments pretrain_gpt
done <<'TABLE'
2|--nproc_per_node=2
2|--nproc-per-node 2
2|--num_gpus 2
3|--num_accelerators=3
2|--nnodes 1 --nproc_per_node 2 --node_rank 0 --master_addr localhost --master_port 6000
2|--nnodes=1:1 --nproc_per_node 2 --standalone
2|--nproc_per_node 2 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 --max-restarts=0
8|--hostfile hostfile
8|-H hostfile
4|--hostfile=hostfile --num_nodes 1
2|--hostfile hostfile --num_gpus 1
6|--hostfile hostfile --nnodes 2 --nproc_per_node 3
TABLE
shows 'megalith in front' "$MEGALITH pretrain_gpt --x 'a b' 'c'\\''d'" ompi4 --nproc_per_node 1 megalith pretrain_gpt \
    --x 'a b' "c'd"
shows 'python in front' "$MEGALITH pretrain_gpt --lr 1" ompi4 --nproc_per_node 1 /usr/bin/python3 -u \
    tools/pretrain_gpt.py --lr 1

# For the command lines of other launchers, only the first word changes.
while IFS='|' read -r parts line; do
    # shellcheck disable=SC2086
    text=$(PATH=$work/ompi4:$PATH "$MEGALITH" $line </dev/null 2>err) || note "$line: exit status $?: $text"
    while IFS= read -r part; do
        case "$text" in *"$part"*) ;; *) note "$line: \"$part\" is not in: $text" ;; esac
    done < <(printf '%s\n' "$parts" | tr '+' '\n')
done <<TABLE
-n 2 $MEGALITH pretrain_gpt --lr 1|torchrun --dry-run --nproc_per_node 2 pretrain_gpt.py --lr 1
-n 2 $MEGALITH pretrain_gpt --lr 1|torchrun --dry-run --standalone --nnodes=1 --nproc-per-node=2 pretrain_gpt.py --lr 1
-n 2 $MEGALITH pretrain_gpt --lr 1|deepspeed --dry-run --num_gpus 2 pretrain_gpt.py --lr 1
-n 2 $MEGALITH pretrain_gpt --lr 1|-m torch.distributed.launch --dry-run --nproc_per_node 2 pretrain_gpt.py --lr 1
-n 2 $MEGALITH pretrain_gpt --lr 1|python3 -u -m torch.distributed.run --dry-run --nproc_per_node 2 python -u pretrain_gpt.py --lr 1
-n 3 $MEGALITH pretrain_gpt --lr 1|accelerate launch --dry-run --multi_gpu --num_processes 3 --num_machines 1 pretrain_gpt.py --lr 1
-n 6 $MEGALITH+worker-1:3|accelerate launch --dry-run --deepspeed_hostfile hostfile --num_processes 6 --num_machines 2 --machine_rank 0 pretrain_gpt.py
pretrain_gpt --num-threads 2 --mixed-precision bf16 --zero-stage 2 --lr 1|accelerate launch --dry-run --num_cpu_threads_per_process 2 --mixed_precision bf16 --use_deepspeed --zero_stage=2 pretrain_gpt.py --lr 1
pretrain_gpt --zero-stage 2 --lr 1|accelerate launch --dry-run --use_deepspeed pretrain_gpt.py --lr 1
pretrain_gpt --lr 1 --deepspeed-config a.json|accelerate launch --dry-run --use_deepspeed pretrain_gpt.py --lr 1 --deepspeed-config a.json
pretrain_gpt --deepspeed_config a.json --lr 1|accelerate launch --dry-run --use_deepspeed --deepspeed_config_file a.json pretrain_gpt.py --lr 1
pretrain_gpt --zero_stage=1|accelerate launch --dry-run --use_deepspeed pretrain_gpt.py --zero_stage=1
pretrain_gpt --tp_degree 2 --sequence_parallelism --lr 1|accelerate launch --dry-run --megatron_lm_tp_degree 2 --megatron_lm_sequence_parallelism True --megatron_lm_use_distributed_optimizer false pretrain_gpt.py --lr 1
pretrain_gpt --DDP-impl FSDP|accelerate launch --dry-run --use_fsdp --dynamo_backend no pretrain_gpt.py
usage: megalith launch|torchrun --help
usage: megalith launch|accelerate launch --help
usage: megalith pretrain_gpt|python pretrain_gpt.py --help
TABLE
# A Python file of the user's own is not taken for a command of its name, but the scripts that commands replace are.
mkdir -p tools
for own in run.py plot.py ./config.py tools/train_tokenizer.py; do
    : >"$own"
    text=$(PATH=$work/ompi4:$PATH "$MEGALITH" accelerate launch --dry-run --num_processes 2 "$own" --lr 1 </dev/null \
        2>err) || note "$own: $(cat err)"
    case "$text" in *"python3 -u $own --lr 1"*) ;; *) note "$own is not started: $text" ;; esac
    rm "$own"
done
: >tools/preprocess_data.py
text=$(PATH=$work/ompi4:$PATH "$MEGALITH" launch --dry-run --nproc_per_node 2 tools/preprocess_data.py --lr 1 \
    </dev/null 2>&1)
case "$text" in *"$MEGALITH preprocess_data --lr 1"*) ;; *) note "tools/preprocess_data.py is not the command: $text" \
    ;; esac
rm tools/preprocess_data.py
refuses 'accelerate test' 'accelerate test: only accelerate launch and accelerate config exist here' accelerate test
refuses 'accelerate counts' 'cannot be spread evenly over 2 machines' accelerate launch --num_processes 3 \
    --num_machines 2 pretrain_gpt
refuses "accelerate's file" 'a.yaml: cannot open for reading' accelerate launch --config_file a.yaml pretrain_gpt
refuses "accelerate's FSDP" '--fsdp_sharding_strategy is not implemented: --use_fsdp shards' accelerate launch \
    --use_fsdp --fsdp_sharding_strategy 1 pretrain_gpt

# DeepSpeed's filters, its own vectors.
while IFS='|' read -r hosts arguments; do
    # shellcheck disable=SC2086
    shows "$arguments" "--host $hosts " ompi4 --hostfile hostfile $arguments pretrain_gpt
done <<'TABLE'
worker-1:2|--include worker-1:0,3
worker-0:2|--include worker-0:1@worker-0:0,1
worker-0:4,worker-1:1|--include worker-1:2@worker-0
worker-0:4|--exclude worker-1
worker-0:2,worker-1:3|--exclude worker-0:0,1@worker-1:3
worker-0:3,worker-1:4|-e worker-0:1
TABLE

# A rank runs on its host, even a single one on a single host that is not this one.
printf 'no-such-host.invalid slots=1\n' >one
printf 'no-such-host.invalid slots=2\n' >two
printf 'a.invalid slots=4\nb.invalid slots=4\n' >many
printf 'deepspeed_config:\n  deepspeed_hostfile: one\nnum_processes: 1\nnum_machines: 1\n' >one.yaml
while IFS='|' read -r hosts line; do
    # shellcheck disable=SC2086
    text=$(PATH=$work/ompi4:$PATH "$MEGALITH" $line </dev/null 2>err) || note "$line: $(cat err)"
    for part in "--host $hosts " '-x MEGA_LAUNCH=1 ' '-n 1 ' 'orte_keep_fqdn_hostnames=1'; do
        case "$text" in *"$part"*) ;; *) note "$line: \"$part\" is not in: $text" ;; esac
    done
done <<'TABLE'
no-such-host.invalid:1|deepspeed --dry-run --hostfile one pretrain_gpt
no-such-host.invalid:1|deepspeed --dry-run --hostfile one --force_multi pretrain_gpt
no-such-host.invalid:1|deepspeed --dry-run --hostfile two --num_gpus 1 pretrain_gpt
no-such-host.invalid:1|deepspeed --dry-run --hostfile two --include no-such-host.invalid:1 pretrain_gpt
b.invalid:1|deepspeed --dry-run --hostfile many --include b.invalid:3 pretrain_gpt
a.invalid:1|deepspeed --dry-run --hostfile many --num_nodes 1 --num_gpus 1 pretrain_gpt
b.invalid:1|launch --dry-run --hostfile many --exclude a.invalid@b.invalid:0,1,2 pretrain_gpt
no-such-host.invalid:1|launch --dry-run --hostfile one --log_dir logs pretrain_gpt
no-such-host.invalid:1|torchrun --dry-run --hostfile two --nnodes 1 --nproc_per_node 1 pretrain_gpt
no-such-host.invalid:1|accelerate launch --dry-run --deepspeed_hostfile one --num_processes 1 --num_machines 1 pretrain_gpt
no-such-host.invalid:1|accelerate launch --dry-run --config_file one.yaml pretrain_gpt
TABLE
for here in localhost 127.0.0.1 "$(hostname)"; do
    echo "$here slots=1" >one
    text=$(launch ompi4 --dry-run --hostfile one pretrain_gpt 2>&1)
    [ "$text" = "$MEGALITH pretrain_gpt" ] || note "one rank on $here: $text"
done
# An engine that starts its ranks elsewhere is not ended because none runs here.
echo 'no-such-host.invalid slots=1' >one
engine remote mpirun 'mpirun (Open MPI) 4.1.4' \
    'echo a warning >&2; sleep 1; printf "[1,0]<stdout>:\035R\n[1,0]<stdout>:well\n"'
MEGA_START_TIMEOUT=0.3 launch remote --hostfile one pretrain_gpt >out 2>err ||
    note "a single rank elsewhere: $(tail -n 1 err)"
grep -qx well out || note "a single rank elsewhere: its output"

# USER@NAME, as DeepSpeed's hostfile has it: ssh is told the user, and filters take the name with and without it.
printf 'a.invalid slots=4 max_slots=8\n' >most
PATH=$work/ompi4:$PATH refuses 'max_slots' \
    'most:1: found "max_slots=8", with which mpirun limits how many ranks|leave it out' \
    launch --hostfile most pretrain_gpt
printf 'trainer@a.invalid slots=2\ntrainer@b.invalid slots=2\n' >users
shows 'a user' "'OMPI_MCA_plm_rsh_agent=ssh -l trainer'|--host a.invalid:2,b.invalid:2 " ompi4 --hostfile users \
    pretrain_gpt
shows 'a user, Open MPI 5' "'PRTE_MCA_plm_ssh_agent=ssh -l trainer'|--host a.invalid:2" ompi5 --hostfile users \
    pretrain_gpt
shows 'a user, MPICH' "'HYDRA_LAUNCHER_EXTRA_ARGS=-l trainer'|-hosts a.invalid:2" hydra --launcher mpich --hostfile \
    users pretrain_gpt
shows 'a user in a filter' '--host a.invalid:1,b.invalid:2 ' ompi4 --hostfile users --include \
    trainer@a.invalid:1@b.invalid pretrain_gpt
shows 'this user' "$MEGALITH pretrain_gpt" ompi4 --hostfile <(echo "$(id -un)@localhost slots=1") pretrain_gpt
printf '2001:db8::17 slots=2\n[fe80::1%%eth0] slots=1\njoe@[::1] slots=1\na:22 slots=1\n@b slots=1\n-oX=1 slots=1\n' \
    >kinds
PATH=$work/ompi4:$PATH refuses 'no names' \
    'kinds:1: "2001:db8::17" is an IPv6 address, which MPI launchers do not take as a host. Give the address a name in /etc/hosts, or in ~/.ssh/config (Host NAME, HostName 2001:db8::17)|kinds:2: "[fe80::1%eth0]" is an IPv6|kinds:3: "joe@[::1]" is an IPv6|kinds:4: "a:22" is not a host: a name has no comma, colon or bracket; a port of ssh|kinds:5: "@b" is not a host|kinds:6: "-oX=1" is not a host' \
    launch --hostfile kinds pretrain_gpt
printf 'joe@a slots=1\njane@b slots=1\nc slots=1\nnobody@localhost slots=1\ngpu_1 slots=1\njoe@a.invalid slots=1\n' \
    >several
PATH=$work/ompi4:$PATH refuses 'users that cannot be' \
    'several:2: host jane@b has another user than joe: the MPI launcher takes one for all hosts. Give each its User in ~/.ssh/config|several:3: host c has another user than joe|several:4: host nobody@localhost is this machine, where the ranks run as the user who starts them|several:5: host gpu_1: Open MPI takes names of letters, digits, dots and hyphens only' \
    launch --hostfile several pretrain_gpt
OMPI_MCA_plm_rsh_agent='ssh -p 22' PATH=$work/ompi4:$PATH refuses 'a user that would be lost' \
    'users: the user trainer of its hosts would be lost, because the environment has OMPI_MCA_plm_rsh_agent=ssh -p 22 already' \
    launch --hostfile users pretrain_gpt

# ---- mistakes ----
PATH=$work/ompi4:$PATH
refuses 'an unknown host' '--include: "jeff" is not a host of hostfile' launch --hostfile hostfile --include jeff \
    pretrain_gpt
refuses 'a filter without hosts' \
    '--include chooses hosts and slots of a --hostfile, but none is given|to use only this machine give the number of ranks: --nproc_per_node N' \
    launch --include localhost:0,1 pretrain_gpt
"$MEGALITH" launch --autotuning run pretrain_gpt >out 2>&1 && note 'autotuning is taken'
grep -q -- '--autotuning is not implemented: megalith plan' out || note "autotuning: $(cat out)"
grep -q 'not itself' out && note "the value of a refused option is a command: $(cat out)"
refuses 'an unknown slot' '--exclude: host worker-1 has no slot 4; it has 0 to 3' launch --hostfile hostfile --exclude \
    worker-1:4 pretrain_gpt
refuses 'a malformed filter' '"5" is not a host' launch --hostfile hostfile --include worker-1@worker-0:1@5 pretrain_gpt
refuses 'both filters' 'cannot be combined' launch --hostfile hostfile --include worker-0 --exclude worker-1 \
    pretrain_gpt
refuses 'a filter and a number' 'leave out --num_nodes' launch --hostfile hostfile --include worker-0 --num_gpus 1 \
    pretrain_gpt
refuses 'all excluded' 'leaves no slot' launch --hostfile hostfile --exclude worker-0@worker-1 pretrain_gpt
refuses 'more hosts than there are' '--nnodes 3: hostfile names 2 hosts' launch --hostfile hostfile --nnodes 3 \
    pretrain_gpt
printf 'a slots=2\nthis is bad slots=1\nmissingslots\na slots=1\nb slots=0\n' >bad
refuses 'a bad hostfile' \
    'bad:2: found "this is bad|bad:3: found "missingslots", expected "HOST slots=N"|bad:4: host a is already in line 1|bad:5: found "b slots=0"' \
    launch --hostfile bad pretrain_gpt
printf '\xef\xbb\xbfa.example slots=2\nA.Example slots=1\n' >bad # a byte order mark; names have no case
refuses 'one host twice' 'bad:2: host A.Example is already in line 1' launch --hostfile bad pretrain_gpt
: >empty
refuses 'an empty hostfile' 'empty names no host' launch --hostfile empty pretrain_gpt
refuses 'no hostfile' 'nowhere' launch --hostfile nowhere pretrain_gpt
refuses 'a flag that is switched off' '--use_deepspeed=false: this option takes no value; leave out =false' launch \
    --use_deepspeed=false pretrain_gpt
refuses 'a GPU' '--gpu is not implemented: ranks run on CPU cores' launch --gpu 2 pretrain_gpt
refuses 'all at once' \
    '--bogus is not an option of launch|--nproc_per_nod is not an option of launch; did you mean --nproc_per_node?|--tee is not implemented: --log_dir' \
    launch --bogus --nproc_per_nod=3 --tee=3 pretrain_gpt
refuses 'ranks on GPUs' '--nproc-per-node gpu: ranks are not counted by GPUs; give a number' torchrun --nproc-per-node=gpu \
    pretrain_gpt
refuses 'a number' '--nproc_per_node: found "two", expected a whole number, at least 1' launch --nproc_per_node two \
    pretrain_gpt
refuses 'elastic' 'a variable number of hosts is not supported' launch --nnodes 1:4 pretrain_gpt
refuses 'no command' 'the command is missing' launch --nproc_per_node 2
refuses 'an unknown command' '"train.py" is not a command; pretrain_gpt does its work here' launch --nproc_per_node 2 \
    train.py
refuses 'several hosts without their names' \
    "the hosts are not known|printf '%s\\n' 'n0 slots=4' 'HOST1 slots=4' > hostfile|megalith launch --hostfile hostfile --nproc_per_node 4 pretrain_gpt" \
    launch --nnodes 2 --nproc_per_node 4 --node_rank 0 --master_addr n0 --master_port 6000 pretrain_gpt.py
OMPI_COMM_WORLD_SIZE=2 refuses 'a launcher in a launcher' 'a launcher has already started this process' launch \
    --nproc_per_node 2 pretrain_gpt
PATH=$work/hydra:$PATH refuses 'not the library of this program' 'this megalith was built with Open MPI' launch \
    --launcher mpich --nproc_per_node 2 pretrain_gpt
PATH=$work/hydra:$PATH refuses 'not the library of this program, one rank' '--launcher mpich: this megalith was built' \
    launch --launcher mpich pretrain_gpt
# An option given twice, under one name or two: the last counts, and that is said once, not where both agree.
shows 'the last number' '-n 3 ' ompi4 --nproc_per_node 2 --num_gpus=3 --nproc-per-node 3 --max_restarts 1 \
    --max_restarts 1 pretrain_gpt
[ "$(cat err)" = "megalith launch: warning: --num_gpus 3 counts; --nproc_per_node 2, given before, does not" ] ||
    note "an option given twice: $(cat err)"
shows 'the last file' '--host a.invalid:2' ompi4 --hostfile users --hostfile <(echo 'a.invalid slots=2') pretrain_gpt
grep -qE 'warning: --hostfile /dev/fd/[0-9]+ counts; --hostfile users, given before, does not' err ||
    note "a file given twice: $(cat err)"
refuses 'no allocation' 'there is no Slurm allocation here' launch --launcher slurm pretrain_gpt
refuses 'another launcher' '--launcher pdsh is not supported; expected openmpi, mpich or slurm' launch --launcher pdsh \
    pretrain_gpt
text=$("$MEGALITH" launch --nnodes 2 --node_rank 1 --master_addr n0 pretrain_gpt) || note "node_rank 1: exit status $?"
case "$text" in *'node 0 (n0) starts the ranks of this host too'*) ;; *) note "node_rank 1: $text" ;; esac
# RANK and WORLD_SIZE in the environment are ignored, so nothing waits for ranks that nobody started; processes of the
# real torchrun are refused.
WORLD_SIZE=2 RANK=1 MASTER_ADDR=n0 "$MEGALITH" plan --preset tiny --micro-batch-size 1 >out 2>&1 ||
    note "WORLD_SIZE: exit status $?"
TORCHELASTIC_RUN_ID=none WORLD_SIZE=2 RANK=1 refuses 'under torchrun' \
    'torchrun started this process as one of 2|megalith torchrun' pretrain_gpt --preset tiny
TORCHELASTIC_RUN_ID=none WORLD_SIZE=2 RANK=1 refuses 'launch under torchrun' \
    'torchrun started this process as one of 2' launch --nproc_per_node 2 pretrain_gpt

# ---- lines ----
# Output as Open MPI passes it on: pieces of several ranks joined, cut within a mark, the last one without a newline.
engine talk mpirun 'mpirun (Open MPI) 4.1.4' \
    'printf "[1,0]<stdout>:\035R\n[1,0]<stdout>:zero o[1,1]<stdout>:one o[1,0]<std"; sleep 0.2; printf "out>:f it\n[1,1]<stdout>:f it [1,2] and [x\n[1,2]<stdout>:two"
printf "[1,1]<stderr>:megalith pretrain_gpt: error: \035Frank 1: no luck\n" >&2; sleep 0.2; echo "[1,0]<stderr>:more" >&2
printf -- "%070d\nmpirun noticed that process rank 1 with PID 7 on node n exited on signal 6 (Aborted).\n%070d\n" 0 0 | tr 0 - >&2; exit 134'
launch talk --nproc_per_node 3 --log_dir logs pretrain_gpt >out 2>err
[ $? -eq 134 ] || note "the exit status of a killed rank"
diff out - <<'TEXT' || note "lines of ranks"
[0] zero of it
[2] two
TEXT
diff err - <<'TEXT' || note "errors of ranks"
[1] megalith pretrain_gpt: error: rank 1: no luck
[0] more
megalith launch: error: rank 1: no luck
TEXT
[ "$(cat logs/rank_1.log)" = "one of it [1,2] and [x
megalith pretrain_gpt: error: rank 1: no luck" ] || note "a log for each rank: $(cat logs/rank_1.log)"
[ -f logs/rank_2.log ] || note "a file for each rank"
PATH=$work/talk:$PATH refuses 'logs where none can be' 't.txt: cannot create the folder' launch --nproc_per_node 2 \
    --log_dir t.txt/logs pretrain_gpt
# Only marks decide, not the words of a line. If no rank gives a reason, the last output of the engine is shown at the
# end.
engine words mpirun 'mpirun (Open MPI) 4.1.4' \
    'printf "[1,0]<stdout>:\035R\n[1,0]<stdout>:training ...\n"; printf "[1,1]<stderr>:megalith pretrain_gpt: error: just words\n" >&2
printf -- "%070d\nPrimary job terminated\n%070d\n" 0 0 | tr 0 - >&2; echo "[1,1]<stderr>:last of a rank" >&2; exit 1'
launch words --nproc_per_node 2 --max-restarts 1 pretrain_gpt >out 2>err
diff err - <<'TEXT' || note "words of ranks and of the engine"
[1] megalith pretrain_gpt: error: just words
[1] last of a rank
Primary job terminated
megalith launch: no restart: the ranks ended before training began, and would do so again
megalith launch: error: the ranks ended without an error message; exit status 1
TEXT
engine dies mpirun 'mpirun (Open MPI) 4.1.4' \
    'echo "mpirun noticed that process rank 3 with PID 0 on node n7 exited on signal 9 (Killed)." >&2; exit 137'
launch dies --nproc_per_node 4 pretrain_gpt >out 2>err
[ $? -eq 137 ] || note "exit status of a rank that was killed"
grep -qx 'megalith launch: error: rank 3 on host n7 was ended by signal 9 (Killed); exit status 137' err ||
    note "who died"

# Hydra ends with 0 if it is asked to end before its ranks are ready. launch must not, because nothing was done.
for signal in TERM:143 INT:130 USR1:138; do
    engine asked${signal%:*} mpirun 'mpirun (Open MPI) 4.1.4' \
        'trap "exit 0" TERM; kill -'${signal%:*}' $PPID; while :; do sleep 0.02; done'
    launch asked${signal%:*} --nproc_per_node 2 --max-restarts 1 pretrain_gpt >out 2>err
    status=$?
    [ $status -eq ${signal#*:} ] || note "SIG${signal%:*} to launch before the ranks are ready: exit status $status"
    tail -n 1 err | grep -q '^megalith launch: ended by a signal: ' ||
        note "SIG${signal%:*} to launch before the ranks are ready: the last line"
done
# The same if a rank reports that a signal ended it; but 0 if a training saves and ends because of the signal.
engine left mpirun 'mpirun (Open MPI) 4.1.4' \
    'printf "[1,0]<stdout>:\035R\n"; printf "[1,1]<stderr>:megalith pretrain_gpt: \035Sleaving\n" >&2; exit 0'
launch left --nproc_per_node 2 pretrain_gpt >out 2>err
[ $? -eq 143 ] || note "ranks that left undone, and an engine that ends with 0"
# One of several ranks received the signal; the engine ends the others with SIGTERM.
engine usr1 mpirun 'mpirun (Open MPI) 4.1.4' \
    'printf "[1,0]<stdout>:\035R\n"; printf "[1,0]<stderr>:\035pmegalith: received SIGTERM\n[1,1]<stderr>:\035kmegalith: received SIGUSR1\n[1,0]<stderr>:\035pmegalith: received SIGTERM\n" >&2
printf "[1,1]<stderr>:megalith pretrain_gpt: \035Sleaving\n" >&2; exit 143'
launch usr1 --nproc_per_node 2 pretrain_gpt >out 2>err
[ $? -eq 138 ] || note "exit status where one rank received SIGUSR1"
grep -qx '.1. megalith: received SIGUSR1' err || note "a rank's answer to a signal"
# The engine passes a signal on, and a rank names what it was given: launch names what the user sent, to it or to the
# engine itself.
for row in TERM:'received SIGTERM':SIGTERM:k:SIGUSR1 HUP:'received SIGHUP':SIGHUP:k:SIGUSR1 \
    USR1:'received SIGUSR1':SIGUSR1:k:SIGUSR1 INT:'interrupted by Ctrl-C (SIGINT)':SIGINT:m:SIGUSR2 \
    none:'received SIGUSR1':SIGUSR1:k:SIGUSR1 none:'received SIGUSR2':SIGUSR2:m:SIGUSR2; do
    IFS=: read -r sent words name mark given <<<"$row"
    mark=$([ "$mark" = k ] && echo : || echo '<')
    rm -rf logs
    engine named$sent mpirun 'mpirun (Open MPI) 4.1.4' \
        'trap "asked=1" USR1 USR2; printf "[1,0]<stdout>:\035R\n[1,0]<stdout>:\035T\n[1,0]<stdout>:begun\n"
until grep -q begun logs/rank_0.log; do sleep 0.02; done; [ '$sent' = none ] && asked=1 || kill -'$sent' $PPID
until [ -n "$asked" ]; do sleep 0.02; done
printf "[1,0]<stderr>:\035'"$mark"'megalith pretrain_gpt: received '$given': the run leaves\n" >&2
printf "[1,0]<stdout>:\035'"$mark"'exiting program after receiving '$given'.\n"'
    launch named$sent --nproc_per_node 2 --log_dir logs pretrain_gpt >out 2>err </dev/null || note "SIG$sent: $(cat err)"
    grep -qxF "[0] megalith pretrain_gpt: $words: the run leaves" err || note "SIG$sent is called: $(cat err)"
    grep -qxF "[0] exiting program after receiving $name." out || note "SIG$sent is called: $(cat out)"
    grep -qxF "exiting program after receiving $name." logs/rank_0.log || note "SIG$sent: $(cat logs/rank_0.log)"
done
engine saves mpirun 'mpirun (Open MPI) 4.1.4' \
    'trap "exit 0" USR1; printf "[1,0]<stdout>:\035R\n[1,0]<stdout>:\035T\n[1,0]<stdout>:begun\n"
until grep -q begun logs/rank_0.log; do sleep 0.02; done; kill -TERM $PPID; while :; do sleep 0.02; done'
launch saves --nproc_per_node 2 --log_dir logs pretrain_gpt >out 2>err || note "a training that saved after a signal"

# An engine that waits for ranks which it never started, or which have ended, is ended; a slow one is not.
a_rank="sh -c 'echo >>begun; i=0; while [ \$((i = i + 1)) -lt 3000 ]; do sleep 0.02; done' $(readlink -f "$MEGALITH")"
heard() { echo "i=0; until grep -q '$1' err || [ \$((i = i + 1)) -gt 2000 ]; do sleep 0.02; done"; }
forever=$(heard 'what is never said')
told=$(heard '1 s after the start not all ranks have joined in MPI_Init (2 of 2 run)')
export MEGA_START_TIMEOUT=1
engine stuck mpirun 'mpirun (Open MPI) 4.1.4' "echo no pipes >&2; $forever"
launch stuck --nproc_per_node 2 pretrain_gpt >out 2>err
[ $? -eq 1 ] || note "exit status of an engine that starts no rank"
grep -qx 'no pipes' err && tail -n 1 err | grep -q \
    '^megalith launch: error: the ranks could not all start, but .*stuck/mpirun kept waiting, so it was ended' ||
    note "an engine that starts no rank"
engine gone mpirun 'mpirun (Open MPI) 4.1.4' "trap '' TERM; $a_rank & $a_rank & $told; kill -9 \$!; $forever"
launch gone --nproc_per_node 2 pretrain_gpt >out 2>err
[ $? -eq 1 ] || note "exit status where a rank ends before all have joined"
tail -n 1 err | grep -q '^megalith launch: error: a rank ended before all had joined, but .* so it was ended' ||
    note "a rank ends before all have joined"
for _ in $(seq 1 100); do pgrep -f "^sh -c echo >>begun; i=0; while .* $(readlink -f "$MEGALITH")" >alive &&
    sleep 0.02 || break; done
[ ! -s alive ] || note "a rank of an engine that was ended lives on"
engine slow mpirun 'mpirun (Open MPI) 4.1.4' \
    "rm begun; $a_rank & one=\$!; $a_rank & until [ -s begun ] && [ \$(wc -l <begun) -eq 2 ]; do sleep 0.02; done; echo a warning >&2; $told; printf '[1,0]<stdout>:\\035R\n[1,0]<stdout>:well\n'; kill \$one \$!"
launch slow --nproc_per_node 2 pretrain_gpt >out 2>err || note "a slow start"
grep -qx '.0. well' out || note "a slow start: its output"
engine silent mpirun 'mpirun (Open MPI) 4.1.4' "trap '' TERM; $(heard 'not all ranks have joined'); kill -INT \$PPID
    $(heard 'interrupted by Ctrl-C'); kill -INT \$PPID; $forever"
launch silent --nproc_per_node 2 pretrain_gpt >out 2>err
[ $? -eq 130 ] || note "Ctrl-C twice while no rank starts"
tail -n 1 err | grep -q 'ended by a signal: Ctrl-C' || note "Ctrl-C twice while no rank starts: the last line"
unset MEGA_START_TIMEOUT
engine killed mpirun 'mpirun (Open MPI) 4.1.4' 'kill -9 $$'
launch killed --nproc_per_node 2 pretrain_gpt >out 2>err
[ $? -eq 137 ] || note "exit status of an engine that was killed"
tail -n 1 err | grep -q \
    '^megalith launch: error: .*killed/mpirun was ended by signal 9 (Killed), sent from outside or by the system when memory ran out' ||
    note "an engine that was killed"

# If a host cannot be reached, the last line is not one of the engine.
engine lost mpirun 'mpirun (Open MPI) 4.1.4' \
    'echo "ssh: Could not resolve hostname worker-1: Name or service not known" >&2; echo "ORTE was unable to reliably start one or more daemons." >&2; exit 1'
printf \
    '#!/bin/sh\nfor word; do [ "$word" != worker-1 ] || { echo "ssh: Could not resolve hostname worker-1" >&2; exit 255; }; done\n' >lost/ssh
chmod +x lost/ssh
launch lost --hostfile hostfile pretrain_gpt >out 2>err
[ $? -eq 1 ] || note "exit status of an unreachable host"
tail -n 1 err | grep -q \
    '^megalith launch: error: host worker-1 (hostfile:4) cannot be reached over ssh: ssh: Could not resolve hostname worker-1; no rank was started. .* ssh -o BatchMode=yes worker-1 true; exit status 1$' ||
    note "an unreachable host"
grep -q '^ssh: Could not resolve' err || note "what ssh said is kept"
# What Open MPI calls its own error is shown only where nothing better is known.
engine internal mpirun 'mpirun (Open MPI) 4.1.4' \
    'printf -- "%070d\nORTE does not know how to route a message\n\nThis is usually an internal programming error\n%070d\n" 0 0 | tr 0 - >&2; exit 1'
cp lost/ssh internal/ssh
launch internal --hostfile hostfile pretrain_gpt >out 2>err
[ "$(grep -c . err)" -eq 1 ] && grep -q 'host worker-1 (hostfile:4) cannot be reached' err ||
    note "an error of Open MPI's own above the cause: $(cat err)"
printf '#!/bin/sh\nexit 0\n' >internal/ssh
launch internal --hostfile hostfile pretrain_gpt >out 2>err
grep -q 'internal programming error' err && tail -n 1 err | grep -q 'the ranks ended without an error message' ||
    note "an error of Open MPI's own, alone: $(cat err)"
printf '#!/bin/sh\nexit 0\n' >lost/ssh
launch lost --hostfile hostfile pretrain_gpt >out 2>err
tail -n 1 err | grep -q '^megalith launch: error: the ranks ended without an error message' ||
    note "hosts that all answer"
# A signal that Open MPI passes on has the name that its sender gave it, and no number.
engine forwards mpirun 'mpirun (Open MPI) 4.1.4' 'echo "mpirun: Forwarding signal 12 to job" >&2; exit 1'
launch forwards --hostfile hostfile pretrain_gpt >out 2>err
grep -q 'Forwarding' out err && note "mpirun's number of a signal is shown: $(cat out err)"

# ---- a help whose reader leaves ----
for command in launch pretrain_gpt; do
    "$MEGALITH" $command --help 2>err | head -n 1 >out
    [ -s err ] && note "$command --help | head: $(cat err)"
done

# ---- options of launch after the command ----
PATH=$work/ompi4:$PATH refuses "--nnodes behind the command" \
    "--nnodes is not an option of pretrain_gpt: it is an option of megalith launch: put it before pretrain_gpt" \
    launch --nproc_per_node 1 pretrain_gpt --lr 1 --nnodes 1
# For every option that its help lists: pretrain_gpt says where it belongs, or has an option of that name itself
names=$("$MEGALITH" launch --help | sed -nE 's/^  --(.*)/--\1/p' |
    sed -E 's/^(--[a-z0-9_*]+).*( \(also .*\))$/\1\2/; t; s/^(--[a-z0-9_*]+).*/\1/' |
    grep -oE -- '--[a-z0-9_]+[*]?' | sed 's/[*]$/thing/')
[ "$(echo "$names" | wc -l)" -ge 90 ] || note "names in the help of launch: $(echo "$names" | wc -l)"
# of the mistakes 30 are shown
for option in $names; do echo "$option=1"; done | xargs -n 25 "$MEGALITH" pretrain_gpt >out 2>err
for option in $names; do
    grep -qE -- "$option is not an option of pretrain_gpt[;.]|$option is an option of" err &&
        note "$option behind the command: $(grep -- "$option is" err)"
done

# ---- restarts ----
engine thrice mpirun 'mpirun (Open MPI) 4.1.4' \
    'echo "$@" >>tried; printf "[1,0]<stdout>:\035T\n"; mkdir -p keep; echo 5 >keep/latest_checkpointed_iteration.txt; [ "$(wc -l <tried)" -ge 3 ] || exit 9'
launch thrice --nproc_per_node 2 --max-restarts 3 pretrain_gpt --finetune --load base --lr 1 --save=keep >out 2>err ||
    note "the third try counts"
sed 's/.*pretrain_gpt//' tried >args
diff args - <<'TEXT' || note "what restarts are given"
 --finetune --load base --lr 1 --save=keep
 --lr 1 --save=keep --load keep
 --lr 1 --save=keep --load keep
TEXT
grep -q 'restart 2 of 3, 2 ranks, from the last checkpoint of keep' err || note "a restart is told"
rm tried
launch thrice --nproc_per_node 2 --max-restarts 3 run_clm --model_name_or_path base --output-dir keep \
    --overwrite_output_dir True --lr 1 >out 2>err || note "run_clm: the third try counts"
sed 's/.*run_clm//' tried >args
diff args - <<'TEXT' || note "what restarts of run_clm are given"
 --model_name_or_path base --output-dir keep --overwrite_output_dir True --lr 1
 --model_name_or_path base --output-dir keep --lr 1 --load keep
 --model_name_or_path base --output-dir keep --lr 1 --load keep
TEXT
# a name of --save that only the tables of other programs know
rm tried
launch thrice --nproc_per_node 2 --max-restarts 3 pretrain_gpt --default_root_dir keep --pretrained_checkpoint=base \
    --lr 1 >out 2>err || note "--default_root_dir: the third try counts"
[ "$(sed -n '3s/.*pretrain_gpt//p' tried)" = " --default_root_dir keep --lr 1 --load keep" ] ||
    note "what restarts with --default_root_dir are given: $(cat tried)"
# what was in the folder before is not what this run has saved
rm tried
engine early mpirun 'mpirun (Open MPI) 4.1.4' \
    'echo "$@" >>tried; printf "[1,0]<stdout>:\035T\n"; [ "$(wc -l <tried)" -ge 2 ] || exit 9'
launch early --nproc_per_node 2 --max-restarts 3 pretrain_gpt --restart --load base --finetune --save keep >out 2>err ||
    note "a restart before its first save"
sed 's/.*pretrain_gpt//' tried | uniq -c | grep -q '^ *2  --restart --load base --finetune --save keep$' ||
    note "a restart before its first save is given $(cat tried)"
grep -q 'restart 1 of 3, 2 ranks, as the first time: it has saved no checkpoint yet$' err ||
    note "it is not said that nothing was saved"
rm tried
launch thrice --nproc_per_node 2 --max-restarts 1 pretrain_gpt >out 2>err
[ $? -eq 9 ] || note "restarts come to an end"
engine mistake mpirun 'mpirun (Open MPI) 4.1.4' 'echo again >>mistakes; exit 2'
launch mistake --nproc_per_node 2 --max-restarts 5 pretrain_gpt >out 2>err
[ "$(wc -l <mistakes)" -eq 1 ] || note "a mistake in the command line was tried again"
rm mistakes
engine vain mpirun 'mpirun (Open MPI) 4.1.4' \
    'echo again >>mistakes; printf "[1,1]<stderr>:megalith pretrain_gpt: error: \035Fno such file\n" >&2; exit 1'
launch vain --nproc_per_node 2 --max-restarts 5 pretrain_gpt >out 2>err
[ $? -eq 1 ] && [ "$(wc -l <mistakes)" -eq 1 ] || note "what ends before it trains was tried again"
grep -qx 'megalith launch: no restart: the ranks ended before training began, and would do so again' err ||
    note "why there is no restart"
tail -n 1 err | grep -qx 'megalith launch: error: rank 1: no such file' || note "the last line is not the cause"
launch vain --nproc_per_node 2 --max-restarts 2 tasks >out 2>err
[ "$(wc -l <mistakes)" -eq 4 ] || note "what does not train is tried again"
launch vain --nproc_per_node 2 pretrain_gpt >out 2>err
grep -q 'no restart' err && note "restarts that nobody asked for are told of"

finish
