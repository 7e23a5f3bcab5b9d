"""Every named composition, in one place: what `policylag bias`, `check` and the law suite go through.

A list of functions, not a registry: the math never looks a name up. A composition is known by the name of
the function that makes it, and every one of them can be called without arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from algorithms.bapo import bapo
from algorithms.cispo import cispo, scalerl
from algorithms.dapo import dapo
from algorithms.decoupled import decoupled_ppo
from algorithms.delta import grpo_delta
from algorithms.dppo import dppo_kl, dppo_tv
from algorithms.dr_grpo import dr_grpo
from algorithms.estimator import Estimator
from algorithms.gmpo import gmpo
from algorithms.grpo import grpo, grpo_behaviour_clip, grpo_dis
from algorithms.gspo import gspo, gspo_token
from algorithms.icepop import icepop, kpop
from algorithms.kimi import kimi
from algorithms.m2po import m2po, m2po_areal
from algorithms.mis import geometric_rs, k3_rs, mis_po, sequence_mis, veto_rs
from algorithms.opsm import opsm
from algorithms.reinforce_pp import reinforce_pp, reinforce_pp_baseline
from algorithms.rloo import rloo
from algorithms.sao import sao, sao_running_mean
from algorithms.sao_ablations import sao_dis_only, sao_step_last, sao_step_mean
from algorithms.sapo import sapo
from algorithms.spo import spo
from algorithms.tba import tba
from algorithms.tis import sequence_tis, token_tis
from algorithms.topr import topr
from algorithms.truncated_is import aipo, pipelinerl, torchforge_reinforce
from algorithms.vapo import vapo, vc_ppo
from algorithms.vcpo import vcpo
from algorithms.vespo import vespo
from algorithms.vtrace import vtrace

COMPOSITIONS: Final[tuple[Callable[[], Estimator], ...]] = (
    grpo,
    grpo_behaviour_clip,
    grpo_dis,
    sao,
    sao_running_mean,
    sao_step_mean,
    sao_step_last,
    sao_dis_only,
    token_tis,
    sequence_tis,
    sequence_mis,
    geometric_rs,
    k3_rs,
    veto_rs,
    mis_po,
    icepop,
    kpop,
    decoupled_ppo,
    dr_grpo,
    dapo,
    rloo,
    reinforce_pp,
    reinforce_pp_baseline,
    gspo,
    gspo_token,
    gmpo,
    cispo,
    scalerl,
    pipelinerl,
    aipo,
    torchforge_reinforce,
    topr,
    vespo,
    dppo_tv,
    dppo_kl,
    sapo,
    grpo_delta,
    opsm,
    kimi,
    m2po,
    m2po_areal,
    bapo,
    vcpo,
    vtrace,
    vc_ppo,
    vapo,
    spo,
    tba,
)


def by_name() -> dict[str, Callable[[], Estimator]]:
    """The compositions by the name of the function that makes each."""
    return {make.__name__: make for make in COMPOSITIONS}
