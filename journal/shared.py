"""What every run of a store has in common."""

from dataclasses import dataclass

from .artifacts import Artifacts
from .bell import Bell
from .database import Database
from .outlet import Outlet
from .world import World


@dataclass(frozen=True)
class Shared:
    """Given to each run's journal."""

    database: Database
    artifacts: Artifacts
    bell: Bell
    world: World
    outlet: Outlet
