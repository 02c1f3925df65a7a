"""Carries out one step: direct call, worker loop, compose; the report and outcome contract."""

__all__: list[str] = []
