"""A run as Markdown: the plan as a mermaid drawing, every step with its end, the answer, the sources, the bill."""

import re

from journal.runs import Run
from journal.steps import StepRow
from journal.values import JsonObject
from planner.markdown import plain_line
from server.product import Product

from .action_view import time_text
from .run_view import RunView
from .words import MARKS


async def run_report(product: Product, run_id: str) -> str:
    """Raises UnknownId."""
    run = await product.store.run(run_id)
    view = await product.view(run_id, detail=True)
    steps = await product.store.steps(run_id)
    lines = [f"# {plain_line(run.goal)}", "", view.message, ""]
    lines += [f"Status {view.status}, created {time_text(run.created_at)}, run `{run.id}`.", ""]
    if steps:
        lines += ["## Plan", "", "```mermaid", *_drawing(steps), "```", ""]
        lines += ["## Steps", "", *(line for step in steps for line in _step_lines(step)), ""]
    if run.answer:
        lines += ["## Answer", "", run.answer, ""]
    lines += _findings(run)
    lines += _bill(view, run)
    return product.store.outlet.text("\n".join(lines))


def _drawing(steps: list[StepRow]) -> list[str]:
    # Some ids, such as `end`, are words of mermaid's own.
    lines = [f'  s_{step.id}["{MARKS[step.status]} {_plain(step.title or step.id)}"]' for step in steps]
    known = {step.id for step in steps}
    for step in steps:
        lines += [f"  s_{need} --> s_{step.id}" for need in step.definition.get("needs", []) if need in known]
    return ["flowchart LR", *lines]


def _step_lines(step: StepRow) -> list[str]:
    who = f" by {step.worker}" if step.worker else ""
    dropped = ", dropped by a revision" if step.dropped else ""
    head = f"- {MARKS[step.status]} **{step.id}** ({step.kind}{who}): {step.status}{dropped}. {plain_line(step.title)}"
    return [head, f"  > {plain_line(step.summary)}"] if step.summary else [head]


def _findings(run: Run) -> list[str]:
    found = run.result.get("findings", [])
    lines = [f"- {plain_line(each['claim'])} ({_support(each)})" for each in found]
    return ["## Findings", "", *lines, ""] if lines else []


def _support(finding: JsonObject) -> str:
    return f"step {finding['step']}" if finding.get("supported") else f"step {finding['step']}, not confirmed"


def _bill(view: RunView, run: Run) -> list[str]:
    usage = view.usage
    cost = f"${usage.cost_usd:.4f}" if usage.cost_known else f"at least ${usage.cost_usd:.4f}"
    lines = ["## Taken", ""]
    lines.append(
        f"{usage.model_calls} model calls, {usage.tool_calls} tool calls, {usage.input_tokens} tokens in, "
        f"{usage.output_tokens} out, {usage.cached_tokens} cached, {cost}, {usage.seconds:g} s at work."
    )
    if sources := run.result.get("sources", []):
        lines += [
            "",
            "## Sources",
            "",
            *(f"- {each['tool']} in step {each['step']} (`{each['call']}`)" for each in sources),
        ]
    if run.warnings:
        lines += ["", "## Warnings", "", *(f"- {plain_line(warning)}" for warning in run.warnings)]
    return lines


def _plain(text: str) -> str:
    return re.sub(r"[^\w .,:;/-]", " ", plain_line(text))[:60]
