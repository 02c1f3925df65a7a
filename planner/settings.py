"""Settings of a run: its budget, and when its plan is looked at again."""

from typing import Literal

from pydantic import BaseModel, Field, FiniteFloat

from journal.settings import SETTINGS
from journal.values import Json

Revise = Literal["on_trigger", "always", "never"]


class BudgetRequest(BaseModel):
    """The limits that a host asks for in one call; what is null stays as the settings have it."""

    model_config = {"extra": "forbid", "frozen": True}

    steps: int | None = Field(default=None, ge=1)
    revisions: int | None = Field(default=None, ge=0)
    retries: int | None = Field(default=None, ge=0)
    parallel: int | None = Field(default=None, ge=1)
    model_calls: int | None = Field(default=None, ge=1)
    tool_calls: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: FiniteFloat | None = Field(default=None, gt=0)
    usd_day: FiniteFloat | None = Field(default=None, gt=0)
    seconds: FiniteFloat | None = Field(default=None, gt=0)


class BudgetSettings(BaseModel):
    """Limits of one run; `usd_day` bounds all runs of a user in a day, `seconds` counts driven time."""

    model_config = SETTINGS

    steps: int = Field(default=20, ge=1)
    revisions: int = Field(default=3, ge=0)
    retries: int = Field(default=1, ge=0)
    parallel: int = Field(default=8, ge=1)
    model_calls: int = Field(default=80, ge=1)
    tool_calls: int = Field(default=120, ge=1)
    tokens: int = Field(default=600_000, ge=1)
    usd: FiniteFloat = Field(default=2.0, gt=0)
    usd_day: FiniteFloat = Field(default=10.0, gt=0)
    seconds: FiniteFloat = Field(default=1800.0, gt=0)

    @property
    def usd_is_written(self) -> bool:
        """Whether the user wrote `usd`: only then a model without a price is an error."""
        return "usd" in self.model_fields_set

    def lowered_by(self, request: BudgetRequest) -> tuple["BudgetSettings", list[str]]:
        """The budget under a request, which may only lower it, and a warning for each limit that it would raise."""
        limits: dict[str, Json] = self.model_dump()
        warnings: list[str] = []
        for name, asked in request.model_dump(exclude_none=True).items():
            if asked > limits[name]:
                warnings.append(
                    f"budget.{name} stays at {limits[name]}: a call may only lower it, not raise it to {asked}"
                )
            else:
                limits[name] = asked
        return BudgetSettings.model_construct(_fields_set=set(self.model_fields_set), **limits), warnings
