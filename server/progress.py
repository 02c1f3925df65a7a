"""One line that says how far a run is."""

from journal.store import Store


async def progress_line(store: Store, run_id: str) -> str:
    """Such as `2/4 · Draft comment · 5 calls · 4.8k tok · $0.01`. Raises UnknownId."""
    run = await store.run(run_id)
    steps = [step for step in await store.steps(run_id) if not step.dropped]
    taken = await store.usage(run)
    ended = sum(step.ended_at is not None for step in steps)
    busy = [step.title or step.id for step in steps if step.status in ("running", "waiting")]
    tokens = taken.input_tokens + taken.output_tokens
    parts = [
        f"{ended}/{len(steps)}" if steps else run.status,
        ", ".join(busy)[:80],
        f"{taken.tool_calls} calls",
        f"{tokens / 1000:.1f}k tok" if tokens >= 1000 else f"{tokens} tok",
        f"${taken.cost_usd:.2f}" if taken.cost_known else "cost unknown",
    ]
    return " · ".join(part for part in parts if part)
