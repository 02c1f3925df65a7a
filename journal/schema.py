"""The store's tables, as numbered migrations; each one's number is the schema version it leads to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Migration:
    """Statements that bring the tables one version further.

    One is additive if releases that know only the version before may go on writing beside it.
    """

    sql: str
    additive: bool


_FIRST = Migration(
    additive=False,
    sql="""
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, fingerprint TEXT NOT NULL, settings_path TEXT NOT NULL,
        goal TEXT NOT NULL, goal_label TEXT NOT NULL, context TEXT NOT NULL, options TEXT NOT NULL,
        idempotency_key TEXT, request_hash TEXT NOT NULL, delivered INTEGER NOT NULL DEFAULT 0,
        status TEXT NOT NULL, stop_reason TEXT, message TEXT, answer TEXT, result TEXT,
        warnings TEXT NOT NULL DEFAULT '[]',
        epoch INTEGER NOT NULL DEFAULT 0, driver TEXT, wake_at REAL, cancel_reason TEXT,
        driven_seconds REAL NOT NULL DEFAULT 0, last_seq INTEGER NOT NULL DEFAULT 0,
        created_at REAL NOT NULL, updated_at REAL NOT NULL, ended_at REAL
    );
    CREATE INDEX runs_by_owner ON runs (owner, created_at);
    CREATE INDEX runs_unfinished ON runs (
        owner, created_at, id, fingerprint, status, driver, wake_at, epoch, cancel_reason, ended_at
    ) WHERE ended_at IS NULL;
    CREATE UNIQUE INDEX runs_by_key ON runs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
    CREATE TABLE memo (
        run TEXT NOT NULL, owner TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, hash TEXT NOT NULL,
        value TEXT NOT NULL, epoch INTEGER NOT NULL, at REAL NOT NULL, PRIMARY KEY (run, key)
    );
    CREATE TABLE steps (
        run TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, version INTEGER NOT NULL,
        kind TEXT NOT NULL, title TEXT NOT NULL, worker TEXT,
        optional INTEGER NOT NULL, dropped INTEGER NOT NULL DEFAULT 0,
        status TEXT NOT NULL, summary TEXT NOT NULL DEFAULT '', definition TEXT NOT NULL,
        started_at REAL, ended_at REAL, PRIMARY KEY (run, id)
    );
    CREATE TABLE intents (
        run TEXT NOT NULL, owner TEXT NOT NULL, key TEXT NOT NULL, call TEXT NOT NULL, step TEXT NOT NULL,
        tool TEXT NOT NULL, class TEXT NOT NULL, arguments TEXT NOT NULL, arguments_hash TEXT NOT NULL, action TEXT,
        state TEXT NOT NULL, epoch INTEGER NOT NULL, begun_at REAL NOT NULL, ended_at REAL, PRIMARY KEY (run, key)
    );
    CREATE TABLE ledger (
        run TEXT NOT NULL, owner TEXT NOT NULL, key TEXT NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL,
        purpose TEXT NOT NULL, state TEXT NOT NULL, step TEXT, worker TEXT, role TEXT, model TEXT,
        model_calls INTEGER NOT NULL, tool_calls INTEGER NOT NULL, tokens INTEGER NOT NULL, usd REAL NOT NULL,
        input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0, cost_known INTEGER NOT NULL DEFAULT 1, at REAL NOT NULL,
        PRIMARY KEY (run, key, epoch)
    );
    CREATE INDEX ledger_by_owner ON ledger (owner, at);
    CREATE TABLE actions (
        id TEXT PRIMARY KEY, run TEXT NOT NULL, owner TEXT NOT NULL, key TEXT NOT NULL, step TEXT,
        kind TEXT NOT NULL, choices TEXT NOT NULL, level TEXT NOT NULL, state TEXT NOT NULL,
        question TEXT NOT NULL, tool TEXT, arguments TEXT NOT NULL, effect TEXT, reasons TEXT NOT NULL,
        binding TEXT NOT NULL, hash TEXT NOT NULL, created_at REAL NOT NULL, expires_at REAL,
        choice TEXT, decided_level TEXT, via TEXT, decided_at REAL, note TEXT, content TEXT,
        edit_of TEXT, subject TEXT NOT NULL, handled INTEGER NOT NULL DEFAULT 0, serial INTEGER NOT NULL,
        UNIQUE (run, key, serial)
    );
    CREATE INDEX actions_by_run ON actions (run, state);
    CREATE TABLE events (
        run TEXT NOT NULL, owner TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, type TEXT NOT NULL,
        step TEXT, call TEXT, data TEXT NOT NULL, PRIMARY KEY (run, seq)
    );
    CREATE TABLE audit (
        seq INTEGER PRIMARY KEY, owner TEXT NOT NULL, at REAL NOT NULL, run TEXT, type TEXT NOT NULL,
        data TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL
    );
    CREATE TABLE artifacts (
        id TEXT PRIMARY KEY, run TEXT NOT NULL, owner TEXT NOT NULL, step TEXT NOT NULL, call TEXT NOT NULL,
        media_type TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, label TEXT NOT NULL,
        created_at REAL NOT NULL
    );
    CREATE INDEX artifacts_by_run ON artifacts (run);
    CREATE TABLE leases (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL, fingerprint TEXT NOT NULL,
        settings_path TEXT NOT NULL, started_at REAL NOT NULL, heartbeat_at REAL NOT NULL
    );
    CREATE TABLE remembered (
        owner TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (owner, kind, name)
    );
    """,
)

# Releases of version 1 refuse to write to any other, so they must be closed first.
_SECOND = Migration(
    additive=False,
    sql="""
    ALTER TABLE runs ADD COLUMN origin TEXT;
    CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;
    ALTER TABLE memo ADD COLUMN seal TEXT;
    ALTER TABLE actions ADD COLUMN sources TEXT NOT NULL DEFAULT '[]';
    CREATE INDEX actions_waiting ON actions (owner, created_at) WHERE state = 'waiting';
    ALTER TABLE ledger ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE intents ADD COLUMN driver TEXT;
    ALTER TABLE intents ADD COLUMN deadline REAL;
    ALTER TABLE intents ADD COLUMN sends INTEGER NOT NULL DEFAULT 1;
    CREATE TABLE imports (run TEXT PRIMARY KEY, owner TEXT NOT NULL, data TEXT NOT NULL, at REAL NOT NULL);
    CREATE TABLE artifacts_2 (
        id TEXT NOT NULL, run TEXT NOT NULL, owner TEXT NOT NULL, step TEXT NOT NULL, call TEXT NOT NULL,
        media_type TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, label TEXT NOT NULL,
        created_at REAL NOT NULL, PRIMARY KEY (run, id)
    );
    INSERT INTO artifacts_2 SELECT id, run, owner, step, call, media_type, size, sha256, label, created_at
        FROM artifacts;
    DROP TABLE artifacts;
    ALTER TABLE artifacts_2 RENAME TO artifacts;
    CREATE INDEX artifacts_by_size ON artifacts (run, size);
    CREATE TABLE grants (
        id TEXT NOT NULL, run TEXT NOT NULL, owner TEXT NOT NULL, step TEXT NOT NULL, tool TEXT NOT NULL,
        arguments TEXT NOT NULL, plan TEXT NOT NULL, bound TEXT NOT NULL, uses INTEGER NOT NULL,
        used INTEGER NOT NULL DEFAULT 0, expires_at REAL NOT NULL, given_at REAL NOT NULL, used_at REAL, call TEXT,
        PRIMARY KEY (run, id)
    );
    CREATE INDEX grants_by_id ON grants (id, used);
    CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN
        SELECT RAISE(ABORT, 'lines of the audit are never removed');
    END;
    CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN
        SELECT RAISE(ABORT, 'lines of the audit are never changed');
    END;
    CREATE TRIGGER audit_is_appended_to BEFORE INSERT ON audit
    WHEN new.seq IS NOT (SELECT COALESCE(MAX(seq), 0) + 1 FROM audit) BEGIN
        SELECT RAISE(ABORT, 'lines of the audit are only added at its end');
    END;
    """,
)

MIGRATIONS = (_FIRST, _SECOND)
VERSION = len(MIGRATIONS)
