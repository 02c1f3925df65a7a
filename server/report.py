"""A run as Markdown: the plan as a mermaid drawing, every step with its end, the answer, the sources, the bill."""

import re

from journal.steps import StepRow

from .product import Product
from .run_view import RunView
from .view import time_text

_MARKS = {
    "succeeded": "✔",
    "partial": "◐",
    "failed": "✘",
    "refused": "⊘",
    "skipped": "-",
    "cancelled": "-",
    "running": "▶",
    "waiting": "‖",
    "pending": "·",
}


async def run_report(product: Product, run_id: str) -> str:
    """Raises UnknownId."""
    run = await product.store.run(run_id)
    view = await product.view(run_id, detail=True)
    steps = await product.store.steps(run_id)
    lines = [f"# {_one_line(run.goal)}", "", view.message, ""]
    lines += [f"Status {view.status}, created {time_text(run.created_at)}, run `{run.id}`.", ""]
    if steps:
        lines += ["## Plan", "", "```mermaid", *_drawing(steps), "```", ""]
        lines += ["## Steps", "", *(line for step in steps for line in _step_lines(step)), ""]
    if view.answer:
        lines += ["## Answer", "", view.answer, ""]
    lines += _bill(view)
    return product.store.outlet.text("\n".join(lines))


def _drawing(steps: list[StepRow]) -> list[str]:
    lines = ["flowchart LR"]
    lines += [f'  {step.id}["{_MARKS[step.status]} {_plain(step.title or step.id)}"]' for step in steps]
    known = {step.id for step in steps}
    for step in steps:
        lines += [f"  {need} --> {step.id}" for need in step.definition.get("needs", []) if need in known]
    return lines


def _step_lines(step: StepRow) -> list[str]:
    who = f" by {step.worker}" if step.worker else ""
    dropped = ", dropped by a revision" if step.dropped else ""
    head = f"- {_MARKS[step.status]} **{step.id}** ({step.kind}{who}): {step.status}{dropped}. {_one_line(step.title)}"
    return [head, f"  > {_one_line(step.summary)}"] if step.summary else [head]


def _bill(view: RunView) -> list[str]:
    usage = view.usage
    cost = f"${usage.cost_usd:.4f}" if usage.cost_known else f"at least ${usage.cost_usd:.4f}"
    lines = ["## Taken", ""]
    lines.append(
        f"{usage.model_calls} model calls, {usage.tool_calls} tool calls, {usage.input_tokens} tokens in, "
        f"{usage.output_tokens} out, {usage.cached_tokens} cached, {cost}, {usage.seconds:g} s at work."
    )
    if view.sources:
        lines += ["", "## Sources", "", *(f"- {s.tool} in step {s.step} (`{s.call}`)" for s in view.sources)]
    if view.warnings:
        lines += ["", "## Warnings", "", *(f"- {_one_line(warning)}" for warning in view.warnings)]
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    return re.sub(r"[^\w .,:;/-]", " ", _one_line(text))[:60]
