"""Warnings and abstentions: closed sets of stable codes, each with its advice.

"No problem", "a problem" and "could not look" are three different answers: nothing said, a
`Finding`, an `Abstention`. Views show them; nobody else writes advice.
"""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, ConfigDict


class Finding(BaseModel):
    """A thing a careful reader would have noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    message: str
    advice: str


class Abstention(BaseModel):
    """A value that is not given: what, why, and what would make it available."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    why: str
    remedy: str


class WarningCode(Enum):
    """A closed set of warnings; each area has its own below. A value is (code, advice)."""

    def __init__(self, code: str, advice: str) -> None:
        self.code = code
        self.advice = advice

    def finding(self, message: str) -> Finding:
        """This warning about one input; `message` carries its figures."""
        return Finding(code=self.code, message=message, advice=self.advice)


class AbstentionCode(Enum):
    """A closed set of values that may be withheld; each area has its own below."""

    def __init__(self, what: str, remedy: str) -> None:
        self.what = what
        self.remedy = remedy

    def because(self, why: str, remedy: str = "") -> Abstention:
        """This value is withheld, and why."""
        return Abstention(what=self.what, why=why, remedy=remedy or self.remedy)


class TraceWarning(WarningCode):
    """What an attribution may warn of."""

    BAD_CELLS = ("bad-cells", "the cells were left out; export the report again to be sure")
    BROKEN_KERNELS = (
        "broken-kernels",
        "they are in no time; shares of the phases they belong to are unreliable",
    )
    CLOCK_SKEW = (
        "clock-skew",
        "host and device clocks disagree; host waits and launch gaps are unreliable",
    )
    DROPPED_RECORDS = (
        "dropped-records",
        "the profiler lost device records; record a shorter window, shares are unreliable",
    )
    GRAPH_LEVEL = (
        "graph-level",
        "record again with --cuda-graph-trace=node to see the kernels inside graphs",
    )
    NAMES_MISSING = ("names-missing", "unnamed kernels can only be in the bucket 'other'")
    NEWER_SCHEMA = (
        "newer-schema",
        "the export is newer than this lanescope knows; update lanescope and compare",
    )
    DEVICES_UNKNOWN = (
        "devices-unknown",
        "the export does not say which physical GPU a process used; its own numbers are shown",
    )
    RANGES_OPEN = ("ranges-open", "ranges that never closed, or lack a name, are not used")
    RANGES_CROSS_THREADS = (
        "ranges-cross-threads",
        "start/end ranges that end on another thread are not used; use push/pop ranges",
    )
    SHORT_NAMES = ("short-names", "the export has no demangled names; short ones are shown")
    STEPS_FEW = ("steps-few", "percentiles of so few steps say little; record a longer window")
    UNATTRIBUTED = (
        "unattributed",
        "their launches are not in the trace (made before it began?); they count as outside",
    )
    UNMATCHED_TIME = (
        "unmatched-time",
        "add rules for the names under 'other' to a profile and pass it with --profile",
    )
    WARMUP = ("warm-up", "warm-up steps are in the totals of the phases, not in the averages")
    WORKERS_IDLE = (
        "workers-without-kernels",
        "processes called CUDA but ran no kernel in the trace; trace child processes too",
    )
    INFERRED = (
        "phases-inferred",
        "no NVTX ranges told the phases; annotate the engine's steps to be certain",
    )


class CopyAbstained(AbstentionCode):
    """What the reading of row copies may withhold."""

    MISSES = ("misses", "name the row-move kernel in a profile ([row_copies] pattern)")
    EXACT_COUNTS = (
        "exact_counts",
        "state routed_rows and row_bytes in the profile, or record without other traffic",
    )
    HIT_RATE = ("hit_rate", "state routed_rows in the profile ([row_copies])")
    LINK = ("link", "state row_bytes in the profile ([row_copies])")
    MODEL = ("model", "record more steps with different numbers of misses")


class CopyWarning(WarningCode):
    """What the reading of row copies may warn of."""

    CONTRADICTION = (
        "copies-contradict-profile",
        "the trace was followed; correct row_copies in the profile, or look at the kernel",
    )
    LEFT_OUT = (
        "copies-left-out",
        "steps cut by the window's edge are read only where they are whole",
    )
    DISTURBED = (
        "copies-disturbed",
        "their layer-steps have wider intervals; keep other copies out of the window to be exact",
    )
    IN_PREFILL = ("copies-in-prefill", "they are in no verification step and in no average here")
    HIT_PRINTED = (
        "printed-hit-contradicts-misses",
        "the engine divides by another number of routed rows; the rate from the misses is used",
    )


class SummaryWarning(WarningCode):
    """What a careful reader notices in a kernel summary."""

    PASSES = (
        "summary-passes",
        "divide by the passes in the capture, or take warm-up out of the sums as well",
    )
    WARMUP_INSIDE = (
        "summary-warm-up",
        "counts hold every pass of the capture; compare with the engine's own number of steps",
    )
    PREFILL_ROWS = (
        "summary-prefill-rows",
        "take all rows with prefill-only counts out of decode",
    )
    PREFILL_SCATTERED = (
        "summary-prefill-scattered",
        "a rule that takes prefill by name, or by one count, leaves the others in decode",
    )
    BOTH_PHASES = (
        "summary-both-phases",
        "counts cannot split such rows; a report with a timeline (cuda_gpu_trace), or one by grid "
        "(cuda_gpu_kern_gb_sum), tells their phases apart",
    )
    UNCLEAR_ROWS = (
        "summary-unclear-rows",
        "they count as decode; give --requests, or prefill rules in a profile's [summary]",
    )
    HIDDEN_NAMES = (
        "summary-hidden-names",
        "add bucket rules for these names; what they cost cannot be seen under 'other'",
    )
    DRAFT = (
        "summary-draft",
        "a bucket of their own shows what drafting costs; their other kernels share names with "
        "the layers",
    )
    GRAPH_LAUNCHES = (
        "summary-graph-launches",
        "API calls are those of the whole capture: divide by its passes",
    )
    TOTALS = ("summary-totals", "the file was edited or cut; write the report again")
    ROUNDED = ("rounded-times", "write the report with --timeunit nsec to have whole nanoseconds")
    SEVERAL_GPUS = (
        "summary-several-gpus",
        "a summary adds up all GPUs: if there are several, passes are counted once for each",
    )


class Abstained(AbstentionCode):
    """What an attribution may withhold: its name and the remedy."""

    STEPS = ("steps", "annotate steps with NVTX ranges, or record a longer decode")
    BUCKETS = ("buckets", "record with --cuda-graph-trace=node")
    LAYERS = ("layers", "record with --cuda-graph-trace=node and layer ranges from start-up on")
    PREFILL = ("prefill", "record a window that holds the prompt of a request")
    LAUNCHES = ("launches", "record with --trace=cuda")
    RANGES = ("ranges", "record with --trace=cuda,nvtx and annotate the engine")
    HOST_WAIT = ("host_wait", "record with --trace=cuda")
    MEMCPY = ("memcpy", "if the program copies memory, record with --trace=cuda")
    MEMSET = ("memset", "if the program sets memory, record with --trace=cuda")
    NSYS_VERSION = ("nsys_version", "export the report with a current Nsight Systems")
    PERIOD = ("period", "record at least two steps in a row")
    WALL = ("wall", "give a trace with a timeline")
    BUSY = ("busy", "give a trace with a timeline")
    EXCLUSIVE = ("exclusive", "give a trace with a timeline")
    IDLE = ("idle", "give a trace with a timeline")
    SPREAD = ("step_spread", "give a trace with a timeline")
    DURATIONS = ("durations", "give a trace with a timeline")
    RANK_SKEW = ("rank_skew", "measure steps that every rank has, with --window")
    COLLECTIVES = (
        "collective_wait",
        "record ranks of one job over the same steps, with a profile that knows its collectives",
    )
    GPU = ("gpu", "the export has no TARGET_INFO_GPU table; export with a current Nsight Systems")


class RankAbstained(AbstentionCode):
    """What the ranks of several reports may withhold."""

    CLOCK_ANCHOR = (
        "clock_anchor",
        "export the report again with Nsight Systems: TARGET_INFO_SESSION_START_TIME says when "
        "its clock began",
    )
    ONE_RUN = ("one_run", "give reports of one run, recorded at the same time")
    CLOCK_ERROR = (
        "clock_error",
        "say with --clock-error how far the machines' clocks can be apart (chronyc tracking, "
        "ptp4l)",
    )


class LaneWarning(WarningCode):
    """What a careful reader notices when lanes are held against each other."""

    BASE_DECIDES_SIGN = (
        "base-decides-sign",
        "name the one control that the question is about, or measure why the controls differ",
    )
    CONTROLS_DIFFER = (
        "controls-differ",
        "the controls' spread is a floor for what a gain can mean; find what sets them apart",
    )
    NO_RELAUNCHES = (
        "relaunches-not-covered",
        "launch both lanes again and give the rows by --relaunch, or a floor by --launch-floor",
    )
    FEW_PROMPTS = (
        "few-prompts",
        "read the t interval, or measure more prompts: the bootstrap over few is too narrow",
    )
    QUEUED_REPETITION = (
        "queued-repetition",
        "the median hides it; look for another client or a restart at that time",
    )
    CONTAMINATED = (
        "another-client",
        "repeat the probe alone; its TTFT, throughput and acceptance are not this lane's",
    )
    FAILED_REQUESTS = (
        "failed-requests",
        "find out why before trusting the rest; what failed is in no figure",
    )
    ONE_CAPTURE = (
        "one-capture-a-lane",
        "capture each lane twice, and compare a lane with its own second capture first",
    )
    FEW_STEPS = ("few-steps", "record a longer window")
    REQUESTS_UNKNOWN = (
        "requests-unknown",
        "annotate requests with NVTX ranges: steps are then drawn within requests",
    )
    STEPS_YIELD_DIFFERENT = (
        "steps-yield-differently",
        "a step that verifies more yields more: give --accepted LANE=TOKENS to compare per token",
    )
    UNEQUAL_MEMORY = (
        "unequal-memory",
        "compare at equal device memory: what one lane left free could have been slots",
    )
    WARMUP_WEIGHS = (
        "warmup-weighs-like-work",
        "weigh by tokens or steps, or mark these rows as warm-up",
    )
    PROMPT_TOKENS = (
        "prompt-lengths-differ",
        "send the same text to both lanes; a nonce in the prompt makes pairs unequal",
    )
    UNEQUAL_REPETITIONS = (
        "unequal-repetitions",
        "medians over different counts are kept, but measure both lanes alike",
    )
    UNEQUAL_PROMPTS = (
        "unequal-prompts",
        "only the common prompts are paired; measure both lanes on the same set",
    )
    RATE_RULES = (
        "rate-rules-differ",
        "the same probe and the same fields for both lanes; else the rates are not one quantity",
    )


class ReplayWarning(WarningCode):
    """What a cache replay may warn of."""

    REPEATED_EXPERTS = (
        "repeated-experts",
        "a router picks different experts; look for padding rows or a wrong column order",
    )
    UNUSED_EXPERTS = (
        "unused-experts",
        "the number of experts may be wrong (--experts), or the trace is short",
    )
    UNEVEN_STEPS = (
        "uneven-steps",
        "right for several streams or a varying draft length; else look at the step column",
    )
    OUTSIDE_MEASURED = (
        "outside-measured-range",
        "measure a lane at such a miss count before relying on the line there",
    )
    MODEL_TERMS = (
        "model-terms-left-out",
        "fit a model without further terms, or on windows that are alike in them",
    )
    PLAN_OF_NOISE = (
        "plan-not-held-out",
        "the layers hardly differ, or the trace is short; the uniform map is as good",
    )
    SLOPE_ONLY = (
        "interval-of-the-slope-alone",
        "refit the model with an interval for base_ms to see the whole uncertainty",
    )


class ReplayAbstained(AbstentionCode):
    """What a cache replay may withhold."""

    RATE = ("tokens_per_s", "--accepted N gives the accepted tokens per step")
    MISSES = ("coverage and subsamples", "--slots gives a number or a slot map")
    COVERAGE = ("coverage", "give every layer as many slots as a step asks for")
    CONTEXT = ("context row", "a smaller reserve, a smaller context, or --min below")
