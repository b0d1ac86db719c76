"""Kernel summaries with a planted truth: passes, layers, requests, and the phase of every row.

The shape is that of a published summary of a slot-cache engine: per-layer kernels, four copies a
layer, kernels of every pass, prefill kernels by layer and by request, dense and draft layers beside
the cached ones, prefill tiles split over prompts, rows that run in both phases, start-up remains.
All figures are made up here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

HEADINGS = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"


@dataclass
class PlantedRow:
    """One row: its name, count, total, and the phases its kernels ran in."""

    name: str
    instances: int
    total_ns: int
    phase: str  # decode, prefill, both, other
    shortest_ns: int = 0
    longest_ns: int = 0


@dataclass
class Planted:
    """A capture as counts: `steps` decode passes, `requests` prefill passes."""

    steps: int
    layers: int
    requests: int
    rows: list[PlantedRow] = field(default_factory=list)

    def text(self, headings: str = HEADINGS) -> str:
        """As `nsys stats --report cuda_gpu_kern_sum --format csv` prints it."""
        whole = sum(r.total_ns for r in self.rows) or 1
        lines = [headings]
        for r in sorted(self.rows, key=lambda r: -r.total_ns):
            mean = r.total_ns / r.instances
            name = f'"{r.name}"' if "," in r.name else r.name
            lines.append(
                f"{100 * r.total_ns / whole:.1f},{r.total_ns},{r.instances},{mean:.1f},{mean:.1f},"
                f"{r.shortest_ns or round(mean)},{r.longest_ns or round(mean)},0.0,{name}"
            )
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, name: str = "kern_sum.csv") -> Path:
        """The CSV as a file."""
        path = folder / name
        path.write_text(self.text(), encoding="utf-8")
        return path

    def total(self, *phases: str) -> int:
        """Summed ns of the rows of these phases."""
        return sum(r.total_ns for r in self.rows if r.phase in phases)

    def add(self, name: str, instances: int, mean_ns: float, phase: str) -> None:
        """Plant a row."""
        total = round(instances * mean_ns)
        mean = total / instances
        self.rows.append(
            PlantedRow(name, instances, total, phase, round(mean * 0.8), round(mean * 1.3))
        )


def slot_cache(
    steps: int,
    layers: int,
    requests: int,
    *,
    dense: int = 3,
    draft: bool = True,
    once: bool = True,
    split: int = 0,
    indexed: int = 0,
    startup: bool = True,
    seed: int = 1,
) -> Planted:
    """A slot-cache engine's capture.

    layers: cached MoE layers; dense: layers beside them; draft: one more MoE layer that drafts;
    once: whether any kernel runs exactly once a pass; split: prompts whose prefill takes another
    tile; indexed: layers with an indexer of their own.
    """
    d, p, both = steps, requests, steps + requests
    moe = layers + int(draft)
    every = moe + dense
    out = Planted(steps, layers, requests)
    us = 1_000.0
    out.add("masked_row_copy", d * layers * 4, 65 * us, "decode")
    out.add("fused_bookkeeping", d * layers, 14 * us, "decode")
    out.add("bmm_E2m1_E2m1E2m1_Fp32_t128x16x256u2_s9", d * layers, 45 * us, "decode")
    out.add("bmm_Bfloat16_E2m1E2m1_Fp32_t128x16x256u2_s9", d * layers, 25 * us, "decode")
    out.add("bmm_E2m1_E2m1E2m1_Fp32_t128x32x512u2_s5", p * layers, 5_200 * us, "prefill")
    out.add("bmm_Bfloat16_E2m1E2m1_Fp32_t128x32x512u2_s4", p * layers, 2_600 * us, "prefill")
    out.add("nvjet_sm103_tst_64x8_64x16_2x1_v_bz_splitK_TNT", d * every, 38 * us, "decode")
    out.add("nvjet_sm103_tst_64x8_64x16_4x1_v_bz_splitK_TNT", d * (every + moe), 9 * us, "decode")
    out.add("nvjet_sm103_tst_128x64_64x9_4x1_v_bz_TNN", p * every, 44 * us, "prefill")
    out.add(
        "void sm100::fwd::sparse_attn_fwd_kernel<sm100::T<(int)576>, int>(T1)",
        both * every,
        8 * us,
        "both",
    )
    out.add(
        "void vllm::act_and_mul_kernel<c10::BFloat16, (bool)0>(T1 *, int)",
        both * every,
        2.3 * us,
        "both",
    )
    out.add(
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, (int)8>(T1 *)",
        both * (2 * every - 1),
        3.3 * us,
        "both",
    )
    out.add("_pack_topk_ids_weights_kernel", both * layers, 1.5 * us, "both")
    if once:
        out.add("rejection_greedy_sample_kernel", d, 2 * us, "decode")
        out.add("eagle_prepare_inputs_padded_kernel", d, 1.4 * us, "decode")
        out.add("_compute_slot_mapping_kernel", both, 2.9 * us, "both")
        out.add(
            "void at::native::reduce_kernel<(int)512, ArgMaxOps<float>>(T3)", both, 9 * us, "both"
        )
        out.add("void at::native::indexSelectSmallIndex<int>(T1)", 2 * d, 1.2 * us, "decode")
    if draft:
        out.add("moe_router_kernel", d * moe, 6 * us, "decode")
        out.add("moe_finalize_kernel", p * moe, 4.8 * us, "prefill")
        if once:
            out.add("bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6", d, 125 * us, "decode")
            out.add("bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x32x128_s4", p, 1_284 * us, "prefill")
    if indexed:
        out.add(
            "void deep_gemm::sm100_paged_mqa_logits<(unsigned int)1>(int)",
            d * indexed,
            5 * us,
            "decode",
        )
        out.add(
            "void vllm::topKPerRowPrefill<(int)512, (bool)0>(const float *)",
            p * indexed,
            1.9 * us,
            "prefill",
        )
    if 0 < split < p:
        out.add("nvjet_sm103_tst_128x56_64x9_2x1_v_bz_TNT", (p - split) * every, 15 * us, "prefill")
        out.add("nvjet_sm103_tst_128x64_64x8_4x1_v_bz_TNT", split * every, 16 * us, "prefill")
    out.add(
        "void at::native::index_elementwise_kernel<(int)128, (int)4>(T1)",
        d * (3 * every - 4) + p * 2,
        2.5 * us,
        "both",
    )
    if startup:
        rng = random.Random(seed)
        for i in range(3):
            out.add(
                f"void at::native::vectorized_elementwise_kernel<(int){2**i}, Fill>(T1)",
                rng.randint(1, 9),
                1.0 * us,
                "other",
            )
    return out
