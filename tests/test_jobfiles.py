"""The job files of docs/scale.md, for SLURM and Kubernetes, as they stand there: what clusters do
with them is done here by hand. The numbers are rows of the fault table.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click import Context

from dragoman.cli import cli
from runs import free_port, needs_fork, step_of, until, workers
from small import STEADY, over, reversals, write_pairs
from small import settings as options

PAIRS = reversals(40)


def script(kind: str, word: str) -> str:
    """The block of that kind on the page in which a word stands."""
    page = Path(__file__).parent.parent / "docs" / "scale.md"
    blocks = re.findall(rf"```{kind}\n(.*?)```", page.read_text("utf-8"), re.S)
    (found,) = (block for block in blocks if word in block)
    return str(found)


SRUN = """#!/bin/bash
# what SLURM's own does on one machine: as many tasks as the step has, and the worst of their codes
[ "$1" = --kill-on-bad-exit=1 ] && shift
for n in 0 1; do
  SLURM_PROCID=$n SLURM_LOCALID=$n SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost,n[7-9] \\
    "$@" & echo $! >> tasks
done
worst=0
for job in $(jobs -p); do wait "$job"; code=$?; [ $code -gt $worst ] && worst=$code; done
exit $worst
"""


@needs_fork
@pytest.mark.slow
def test_24_the_job_file_for_slurm_runs_and_goes_on_when_requeued(tmp_path: Path) -> None:
    """As it stands on the page; `srun`, `scontrol` and `dragoman` are stand-ins that note what they
    are asked for and start the real thing.
    """
    pairs, folder = write_pairs(tmp_path / "pairs.tsv", PAIRS), tmp_path / "model"
    tree = over(STEADY, train={"max_steps": 150, "checkpoint_every": 1, "evaluate_every": 75})
    given = shlex.join(options(tree))
    programs = {
        "srun": SRUN,
        "scontrol": '#!/bin/bash\necho "$@" >> asked\n',
        "dragoman": f'#!/bin/bash\nexec {sys.executable} -m dragoman "$@" {given}\n',
    }
    (tmp_path / "bin").mkdir()
    for name, content in programs.items():
        (tmp_path / "bin" / name).write_text(content)
        (tmp_path / "bin" / name).chmod(0o755)
    job = script("bash", "#SBATCH --nodes").replace("/data/pairs.tsv", str(pairs))
    job = job.replace("/shared/model", str(folder))
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    env |= {"SLURM_JOB_ID": str(free_port() - 20_000), "SLURM_CPUS_PER_TASK": "1"}

    def sbatch(restarts: int) -> subprocess.Popen[str]:
        told = {**env, "SLURM_RESTART_COUNT": str(restarts)} if restarts else env
        return subprocess.Popen(
            ["bash", "-c", job], cwd=tmp_path, env=told, stderr=subprocess.PIPE, text=True
        )

    run = sbatch(0)
    until(lambda: step_of(folder) > 5, within=120)
    for pid in (tmp_path / "tasks").read_text().split():  # as `--signal=TERM@120` would
        os.kill(int(pid), signal.SIGTERM)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 0, said
    assert (tmp_path / "asked").read_text() == f"requeue {env['SLURM_JOB_ID']}\n"
    before = step_of(folder)
    assert 5 < before < 150
    run = sbatch(1)
    _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    assert f"resumed at step {before}" in said
    assert "in 2 processes" in said
    assert (tmp_path / "asked").read_text().count("requeue") == 1
    assert step_of(folder) == 150


@needs_fork
@pytest.mark.slow
def test_24_the_job_file_for_kubernetes_runs_and_a_pod_may_come_back(tmp_path: Path) -> None:
    """As it stands on the page, one process a pod. A pod that is killed is started again, with the
    same command, by its `restartPolicy`.
    """
    job, service = yaml.safe_load_all(script("yaml", "dragoman-train"))
    spec = job["spec"]["template"]["spec"]
    name, (box,) = job["metadata"]["name"], spec["containers"]
    assert (spec["subdomain"], service["metadata"]["name"]) == (name, name)
    assert service["spec"]["selector"] == {"job-name": name}
    assert (job["spec"]["completionMode"], spec["restartPolicy"]) == ("Indexed", "OnFailure")
    pairs, folder = write_pairs(tmp_path / "pairs.tsv", PAIRS), tmp_path / "model"
    tree = over(STEADY, train={"max_steps": 150, "checkpoint_every": 1, "evaluate_every": 75})
    (command,) = box["args"]
    for here, there in {
        "torchrun": f"{sys.executable} -m torch.distributed.run",
        f"{name}-0.{name}:29500": f"localhost:{free_port()}",
        "--nproc-per-node=8": "--nproc-per-node=1",
        "/shared/pairs.tsv": str(pairs),
        "/shared/model": f"{folder} {shlex.join(options(tree))}",
    }.items():
        assert here in command
        command = command.replace(here, there)
    env = {**os.environ, "OMP_NUM_THREADS": "1", **{e["name"]: e["value"] for e in box["env"]}}

    def pod(index: int) -> subprocess.Popen[bytes]:
        told = {**env, "JOB_COMPLETION_INDEX": str(index)}
        return subprocess.Popen([*box["command"], command], env=told, start_new_session=True)

    pods = [pod(0), pod(1)]
    try:
        until(lambda: step_of(folder) > 5, within=180)
        for pid in [*workers(pods[1].pid), pods[1].pid]:
            os.kill(pid, signal.SIGKILL)
        pods[1].wait()
        pods[1] = pod(1)
        assert [one.wait(timeout=240) for one in pods] == [0, 0]
    finally:
        for one in pods:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
    assert step_of(folder) == 150


def test_the_job_files_name_what_there_is() -> None:
    """Commands on the page take the options they are given."""
    text = script("yaml", "dragoman-predict") + script("bash", "GNU parallel")
    text += script("bash", "#SBATCH --nodes") + script("yaml", "dragoman-train")
    known = {verb: cli.get_command(Context(cli), verb) for verb in ("train", "predict", "merge")}
    found = re.findall(r"dragoman (train|predict|merge) ([^'\"\n&|]*)", text)
    assert {verb for verb, _ in found} == set(known)
    for verb, rest in found:
        given = [word for word in rest.split(":::")[0].split() if word != ")"]
        known[verb].make_context(verb, given)  # raises where an option is unknown


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_the_scripts_are_bash() -> None:
    for word in ("#SBATCH --nodes", "GNU parallel"):
        subprocess.run(["bash", "-n"], input=script("bash", word), text=True, check=True)
