# One container a node, each with the same command but for its rank: vLLM's own way to several nodes. What a container gets
# is decided here and nowhere else, as words; nothing of it goes through a shell, on no machine.
"""The container of each member of a deployment, as words for its engine."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta

from vllm_graft.image.configuration import canonical_json
from vllm_graft.image.engine import DEPLOYMENT_LABEL, ROLE_LABEL, Engine
from vllm_graft.values.command import Command
from vllm_graft.values.deployment import Deployment, Member
from vllm_graft.values.digest import Digest

DIGEST_LABEL = "vllm-graft.deployment.digest"
RANK_LABEL = "vllm-graft.rank"
RUN_LABEL = "vllm-graft.run"
"""Of one run of ``up``: what it made, and no other run of it."""
MEMBERS_LABEL = "vllm-graft.nodes"
"""The names of all nodes, by rank, as they were called where it was started; with commas between."""

MODEL_PLACE = "/opt/vllm-graft/model"
"""Where the model lies in every container, wherever it is on the node."""

_SHARED_MEMORY = "16g"
"""A limit, not a reservation. vLLM 0.30 needs 160 MiB for each message queue and refuses Docker's 64 MB; NCCL shares buffers
between the GPUs of one machine there too."""

_LIMITS = ("--ulimit", "memlock=-1:-1", "--ulimit", "stack=67108864:67108864")
"""Memory that GPUs and network cards write into may not be swapped out. An engine of an ordinary user may not lift the limit.
Source: NVIDIA, PyTorch container 25.01, "Running"."""

_MAKING = timedelta(minutes=5)
"""The first container of a large image has its layers mounted first."""


def deployment_digest(deployment: Deployment) -> Digest:
    """Name what is served and how: two starts of the same have the same."""
    return Digest.of(canonical_json(asdict(deployment)))


def container_name(deployment: str, rank: int) -> str:
    """Name the container of a rank: an engine gives one name once, so that no rank is started twice."""
    return f"vllm-graft-{deployment}-{rank}"


def create_member(
    engine: Engine, deployment: Deployment, member: Member, *, run: str, master_port: int
) -> Command:
    """Make the container of a member; nothing of it runs yet.

    The entrypoint of the image is not run, whatever it is; nor is its health check, which knows nothing of ranks. No engine
    starts it again by itself: a rank that comes back alone finds no cluster (vLLM 0.30 has no way to rejoin).
    """
    labels = _labels(deployment, member, run)
    return engine.command(
        *("create", "--name", container_name(deployment.name, member.rank)),
        *(word for name, text in labels.items() for word in ("--label", f"{name}={text}")),
        *("--pull", "never", "--restart", "no", "--no-healthcheck"),
        *("--network", "host", "--shm-size", _SHARED_MEMORY),
        *((*_gpus(engine), *_LIMITS) if member.gpus else ()),
        *("--mount", _mount(member.model_folder, deployment.model.mounted)),
        *(
            word
            for name, text in environment_of(deployment, member).items()
            for word in ("--env", f"{name}={text}")
        ),
        *("--entrypoint", "vllm", deployment.image),
        *serve_words(deployment, member, master_port),
        why=f"make the container of rank {member.rank} ({role_of(member)})",
        timeout=_MAKING,
    )


def _gpus(engine: Engine) -> tuple[str, str]:
    """Ask for all GPUs. Source: NVIDIA container toolkit 1.17: Docker has a word for them, podman 4 takes them as devices."""
    return ("--device", "nvidia.com/gpu=all") if engine.name == "podman" else ("--gpus", "all")


def environment_of(deployment: Deployment, member: Member) -> Mapping[str, str]:
    """Give the variables of a member's container.

    The network is named by the interface that has the member's own address: no two nodes need call it the same.

    Source: vLLM 0.30 envs.py (VLLM_HOST_IP); torch 2.13 ProcessGroupGloo.cpp (GLOO_SOCKET_IFNAME) and tensorpipe_agent.cpp
    (TP_SOCKET_IFNAME), one exact name each; NCCL 2.28 user guide (NCCL_SOCKET_IFNAME: a prefix, but for ``=`` before it).
    """
    own = dict(deployment.variables)
    if len(deployment.members) > 1:
        own |= {
            "VLLM_HOST_IP": member.address,
            "GLOO_SOCKET_IFNAME": member.interface,
            "TP_SOCKET_IFNAME": member.interface,
            "NCCL_SOCKET_IFNAME": f"={member.interface}",
        }
    return own


def serve_words(deployment: Deployment, member: Member, master_port: int) -> tuple[str, ...]:
    """Give what ``vllm`` is told: the same on every node, but for rank and API.

    Source: vLLM 0.12 to 0.31, engine/arg_utils.py (``--nnodes``, ``--node-rank``, ``--master-addr``, ``--master-port``) and
    entrypoints/openai/cli_args.py (``--headless``). ``mp`` is what vLLM takes by itself on CUDA with several nodes; on a CPU
    it has to be said.
    """
    return (
        *("serve", deployment.model.path),
        *_unless(deployment.args, "--served-model-name", deployment.model.name),
        *("--tensor-parallel-size", str(deployment.tensor_parallel)),
        *deployment.args,
        *_native(deployment, member, master_port),
        *(
            ("--host", deployment.host, "--port", str(deployment.port))
            if member.rank == 0
            else ("--headless",)
        ),
    )


def _native(deployment: Deployment, member: Member, master_port: int) -> Iterator[str]:
    if len(deployment.members) == 1:
        return
    yield from _unless(deployment.args, "--distributed-executor-backend", "mp")
    yield from ("--nnodes", str(len(deployment.members)), "--node-rank", str(member.rank))
    yield from ("--master-addr", deployment.head.address, "--master-port", str(master_port))


def _unless(args: tuple[str, ...], name: str, value: str) -> tuple[str, ...]:
    return () if said(args, name) is not None else (name, value)


def said(args: tuple[str, ...], *names: str) -> str | None:
    """Give what an argument of ``vllm serve`` is given among these words, the last time; None where it is not there.

    Source: vLLM 0.17.1 utils/argparse_utils.py: ``--a_b`` is ``--a-b``, and a value may stand behind ``=``.
    """
    found = None
    for number, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name.startswith("-") and name.replace("_", "-") in names:
            found = value if equals else next(iter(args[number + 1 : number + 2]), "")
    return found


def _labels(deployment: Deployment, member: Member, run: str) -> Mapping[str, str]:
    return {
        ROLE_LABEL: role_of(member),
        DEPLOYMENT_LABEL: deployment.name,
        DIGEST_LABEL: str(deployment_digest(deployment)),
        RANK_LABEL: str(member.rank),
        RUN_LABEL: run,
        MEMBERS_LABEL: ",".join(each.node for each in deployment.members),
    }


def role_of(member: Member) -> str:
    """Give what a member is."""
    return "worker" if member.rank else "head"


def _mount(source: str, target: str) -> str:
    """Give the words of a read-only mount; unlike ``--volume`` it makes no folder where there is none.

    Source: Docker 20.10 to 28 and podman 4 read them as one line of CSV.
    """
    fields = ("type=bind", f"source={source}", f"target={target}", "readonly")
    return ",".join(map(_field, fields))


def _field(text: str) -> str:
    needs = any(each in text for each in ',"\n\r')
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if needs else text
